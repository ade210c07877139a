"""YAML in which every value stays the text that it is in the file: YAML would make False of `no`, and 7 of `007`."""

from collections.abc import Mapping
from typing import Any

from shardfeed.errors import LabelFileError, escape, needing_extra

MOST_BYTES = 4_000_000  # maximum size of a description: the names of 10,000 classes take a tenth of it
_TAGS = {kind: f"tag:yaml.org,2002:{tag}" for kind, tag in (("scalar", "str"), ("sequence", "seq"), ("mapping", "map"))}
_MOST_NODES = 1_000_000  # as many as a file of MOST_BYTES may hold without aliases


def load_yaml(path: str, data: bytes | str) -> Mapping[str, Any]:
    """The mapping in `data`, the content of a YAML file: of texts, lists and mappings.

    Raises LabelFileError for any other file, MissingExtraError without PyYAML.
    """
    with needing_extra(path):
        import yaml

    safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml takes a quarter of the time

    class Loader(safe):
        """The safe loader, which reads plain words as texts, and refuses duplicate keys."""

        def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
            return _TAGS[kind.id]  # of a node without a tag

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if isinstance(key.value, str):
                    if key.value in seen:
                        raise yaml.constructor.ConstructorError(None, None, "a duplicate key", key.start_mark)
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

        def get_single_node(self) -> Any:
            node = super().get_single_node()
            if node is not None and _expanded(node, {}) > _MOST_NODES:
                problem = "aliases that expand to more than a million values"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            return node

    if len(data) > MOST_BYTES:
        problem = f"more than {MOST_BYTES:,} bytes, too large for YAML"
        raise LabelFileError(path, problem, "check that it is the right file")
    try:
        document = yaml.load(data, Loader)  # a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = path if mark is None else f"{path}:{mark.line + 1}:{mark.column + 1}"
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed"
        raise LabelFileError(place, f"not YAML: {escape(problem)}", "correct it") from None
    except (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as error:
        # Errors that PyYAML lets through: a tag that does not fit its text (`!!int x`), ten thousand brackets.
        raise LabelFileError(path, f"not YAML: {type(error).__name__}", "correct it") from None
    if not isinstance(document, dict):
        problem = "not a mapping, expected lines such as 'names: [cat, dog]'"
        raise LabelFileError(path, problem, "give the data.yaml of a YOLO dataset")
    return document


def _expanded(node: Any, seen: dict[int, int]) -> int:
    """Count the values of a YAML node with its aliases expanded; beyond any limit for a node that contains itself."""
    if isinstance(node.value, str):
        return 1
    if id(node) not in seen:
        seen[id(node)] = _MOST_NODES + 1  # while it is being counted
        children = (child for item in node.value for child in (item if isinstance(item, tuple) else (item,)))
        seen[id(node)] = 1 + sum(_expanded(child, seen) for child in children)
    return seen[id(node)]
