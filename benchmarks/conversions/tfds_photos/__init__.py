"""A folder of its own: TFDS reads files beside a builder's class as its description."""
