"""What a worker does with annotations: where they are in the stored image, and an account of each."""
