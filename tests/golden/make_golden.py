"""Writes golden.tfrecord and golden.json beside itself with real TensorFlow: run by hand, the output is committed.

Each record is a tf.train.Example, serialised deterministically; golden.json says what is in it, bytes as hex.
"""

import json
from pathlib import Path

import tensorflow as tf

EXAMPLES: list[dict[str, dict[str, list]]] = [
    {},
    {"a": {"int64": [0]}},
    {"image/class/label": {"int64": [3]}, "image/class/text": {"bytes": [b"daisy".hex()]}},
    {"n": {"int64": [-1, 2**63 - 1, -(2**63), 127, 128, 300]}},
    {"f": {"float32": [0.5, -1.25, 3.0e38]}, "e": {"float32": []}, "i": {"int64": []}, "b": {"bytes": []}},
    {"big": {"bytes": [(bytes(range(256)) * 8).hex(), "", "00"]}, "ü/ß": {"int64": [1]}},
    {f"key{i:03d}": {"int64": [i]} for i in range(200)},
]


def main() -> None:
    here = Path(__file__).parent
    with tf.io.TFRecordWriter(str(here / "golden.tfrecord")) as writer:
        for features in EXAMPLES:
            example = tf.train.Example()
            for key, kinds in features.items():
                for kind, values in kinds.items():
                    feature = example.features.feature[key]
                    if kind == "int64":
                        feature.int64_list.SetInParent()
                        feature.int64_list.value.extend(values)
                    elif kind == "float32":
                        feature.float_list.SetInParent()
                        feature.float_list.value.extend(values)
                    else:
                        feature.bytes_list.SetInParent()
                        feature.bytes_list.value.extend(bytes.fromhex(v) for v in values)
            writer.write(example.SerializeToString(deterministic=True))
    text = json.dumps({"tensorflow": tf.__version__, "examples": EXAMPLES}, ensure_ascii=True)
    (here / "golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
