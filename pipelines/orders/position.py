"""Position of a training run in its input: a number of steps and their order, as a line of JSON saved with the model.

The order is saved with it, so that a run with other data can be refused: another dataset, split, seed or global batch
would silently repeat some samples and skip others.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import zip_longest
from typing import Any

from shardfeed.declared import Step, checked
from shardfeed.errors import IntegrityError, OrderMismatchError, UsageError
from shardfeed.pipelines.orders.order import BlockOrder, GlobalOrder, Order, StoredOrder, StreamOrder
from shardfeed.pipelines.orders.shapes import ShapeOrder
from shardfeed.pipelines.orders.strata import PhasedOrder, StratifiedOrder
from shardfeed.read_back import checked_text
from shardfeed.storage.checksum import crc32c
from shardfeed.storage.local import storage_error, write_file

_FORMAT = 1
_LONG = 60  # characters of a value shown in an error

_OF_EVERY_ORDER = {field.name for field in fields(Order)}


ORDERS: Mapping[str, type[Order]] = {
    order.kind: order
    for order in (StreamOrder, StoredOrder, GlobalOrder, BlockOrder, StratifiedOrder, PhasedOrder, ShapeOrder)
}


def order_from_json(value: Any) -> Order:
    """The inverse of `Order.to_json`. Raises UsageError on anything else."""
    try:
        kind = ORDERS[value["kind"]]
        given: dict[str, Any] = {name: _frozen(v) for name, v in value.items() if name != "kind"}
        return kind(**given)  # which checks them
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UsageError("order", f"not a saved order: {type(error).__name__}: {error}") from None


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@checked
@dataclass(frozen=True)
class Position:
    """Position of a training run. `step`: number of global batches that training has used in `order`, from epoch 0 on.

    Raises UsageError for a step that is not an integer from 0 to 2^63 - 1, and for an order that is not an object of
    `order_samples` or a loader.

    Example:
        position = Position.from_json(feed.position(1000))
        print(position.epoch, position.step_in_epoch)
    """

    step: Step
    order: Order

    @property
    def epoch(self) -> int:
        """Number of finished epochs."""
        return self.step // self.order.steps_per_epoch

    @property
    def step_in_epoch(self) -> int:
        """Number of batches of the current epoch already used."""
        return self.step % self.order.steps_per_epoch

    def to_json(self) -> str:
        """Return one line of JSON that includes its CRC-32C; `from_json` is the inverse.

        Raises UsageError for an order that `from_json` would not give back.
        """
        _check_readable(self.order)
        return self._text()

    def _text(self) -> str:
        content = {"format": _FORMAT, "step": self.step, "order": self.order.to_json()}
        checksum = crc32c(json.dumps(content, sort_keys=True).encode())
        return json.dumps({**content, "crc32c": f"{checksum:08x}"}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes, place: object = "position") -> "Position":
        """Read a position that `to_json` wrote. Raises an IntegrityError that names `place` for any other text."""
        try:
            value = json.loads(text)
            if type(value["format"]) is not int or value["format"] > _FORMAT:
                raise ValueError(f"its format is {value['format']!r}, this release reads {_FORMAT}")
            position = cls(value["step"], order_from_json(value["order"]))
            if json.loads(position._text()) != value:
                raise ValueError("changed since it was written: its checksum does not match")
            return position
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            problem = f"not a position: {type(error).__name__}: {error}"
            raise IntegrityError(place, problem, "restore it, or start training from scratch") from None

    @checked
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the position to a file, atomically and durably. Raises StorageError."""
        write_file(os.fspath(path), (self.to_json() + "\n").encode())

    @classmethod
    @checked
    def load(cls, path: str | os.PathLike[str]) -> "Position | None":
        """Read a position from a file that `save` wrote; None if there is no such file.

        Raises IntegrityError for any other content, StorageError for a directory and for what cannot be read.
        """
        try:
            with open(path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(os.fspath(path), "read", error) from error
        return cls.from_json(data, path)

    @checked
    def continued_with(self, order: Order, place: object = "position") -> "Position":
        """The same step in another order, which equals this position's at all steps before: the run goes on in it.

        `order`: of a mixture with other weights from this step or a later one on; parts that join follow those that
        there are. `loader.order` of the loader that is to continue, or what `order_samples` returns. If this position
        is of that order already, nothing changes, so that a script may call this at each start.

        Raises OrderMismatchError if an earlier step is of other samples, or the seed, the batch size or the length of
        an epoch differs.

        Example:
            more = mix([photos, drawings, sketches], {0: (3, 1, 0), 40_000: (1, 1, 1)})
            batches = array_batches(more, batch_size=256, image_size=224, seed=7)
            batches.seek(Position.load("position.json").continued_with(batches.order))
        """
        if (first := self._leaves(order)) is not None:
            remedy = f"give the weights of all steps before as that run had them; new ones begin at step {self.step}"
            if first == 0:
                remedy = "a run keeps seed, batch_size, epoch_samples, and the splits and weights of step 0"
            then = [each.until(first + 1)[-1][1] for each in (self.order, order)]
            changes = "; ".join(_changes(*then).values())
            problem = f"step {self.step} was saved with other samples from step {first} on: {changes}"
            raise OrderMismatchError(place, problem, remedy)
        return Position(self.step, order)

    def _leaves(self, order: Order) -> int | None:
        """The first step, of those done, of which `order` has other samples; None if there is none."""
        pairs = zip_longest(self.order.until(self.step), order.until(self.step), fillvalue=(self.step, None))
        return next((min(saved[0], wanted[0]) for saved, wanted in pairs if saved != wanted), None)

    @checked
    def check(self, order: Order, place: object = "position") -> None:
        """Check that `order` equals the order of this position.

        If not, raise OrderMismatchError, which names the differences.
        """
        if not (changes := _changes(self.order, order)):
            return
        remedy = "give the same dataset and arguments, or start training from scratch"
        if not {*changes} & _OF_EVERY_ORDER and (given := _argument(self.order)):
            remedy = f"give order={given}: its default depends on the machine's memory and on the dataset's storage"
        if [*changes] == ["parts"]:
            remedy = 'a run in the stream order keeps its number of workers; order="global" allows any number'
        if self._leaves(order) is None:
            remedy = "position.continued_with(order) goes on with other weights or more parts"
        problem = f"step {self.step} was saved with another order: {'; '.join(changes.values())}"
        raise OrderMismatchError(place, problem, remedy)


@lru_cache(4)
def _check_readable(order: Order) -> None:
    """Have a position in this order read back: once, because a loop may save each step of an order of many classes."""
    first = Position(0, order)
    checked_text("position", first._text, Position.from_json, first)


def _changes(order: Order, other: Order) -> dict[str, str]:
    """The fields that differ in another order: by name, how."""
    saved, wanted = order.to_json(), other.to_json()
    differing = [key for key in sorted(saved.keys() | wanted.keys()) if saved.get(key) != wanted.get(key)]
    return {key: f"{key} was {_short(saved.get(key))}, now {_short(wanted.get(key))}" for key in differing}


def _argument(order: Order) -> str:
    """Return the argument that makes an order of this kind; "" for orders that no default is."""
    if isinstance(order, StreamOrder):
        return f"Stream(buffer={order.shuffle_buffer})"
    if isinstance(order, BlockOrder):
        return f"Blocks(buffer={order.window}, block_bytes=...), with 8 << 20 bytes if that run read a bucket"
    return f'"{order.kind}"' if isinstance(order, GlobalOrder | StoredOrder) else ""


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."
