"""Functions of the user's that raise in a PyTorch loader: their own error, with a line about function and sample."""

import re
import traceback
from functools import partial
from typing import Any

import pytest
from loader_transforms import Fails, TwoWordsError, fails_at_seven, fails_for_all, fails_with_two_words

from shardfeed.pipelines.torch import to_device, torch_eval_loader, torch_loader
from shardfeed.readers import Dataset

pytestmark = pytest.mark.promise(75)

PLACE = r"\S*train-0000\d-of-00004.tfrecord, record \d+, offset \d+ \(.*\.(jpg|png)\)"


def error_of(loader: Any) -> BaseException:
    with pytest.raises(Exception, match=r"") as caught:  # of any type
        for _ in loader:
            pass
    return caught.value


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make", [torch_loader, torch_eval_loader])
def test_a_transform_that_raises_is_named_with_its_sample(flowers: Dataset, make: Any, workers: int) -> None:
    error = error_of(make(flowers["train"], batch_size=20, transform=fails_at_seven, workers=workers))
    assert type(error) is KeyError
    said = "".join(traceback.format_exception(error))  # of a worker process, the text has the traceback there
    assert re.search(
        rf"transform fails_at_seven raised this for {PLACE}".replace(".*", ".*7.*"), said.replace("\\n", "\n")
    )


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"transform": fails_with_two_words}, rf"transform fails_with_two_words raised this for {PLACE}"),
        ({"transform": Fails()}, rf"transform Fails raised this for {PLACE}"),
        ({"transform": partial(fails_at_seven)}, rf"transform fails_at_seven raised this for {PLACE}"),
        ({"image_transform": fails_for_all}, rf"image_transform fails_for_all raised this for {PLACE}"),
        ({"image_size": 16, "collate_fn": fails_for_all}, "collate_fn fails_for_all raised this for 20 samples"),
    ],
)
def test_every_function_is_named(flowers: Dataset, options: dict[str, Any], said: str, workers: int) -> None:
    error = error_of(torch_loader(flowers["train"], batch_size=20, workers=workers, **options))
    assert isinstance(error, KeyError | TwoWordsError | RuntimeError)
    assert isinstance(error, KeyError) or "two_words" in said
    assert re.search(said, "".join(traceback.format_exception(error)).replace("\\n", "\n"))


def test_a_function_of_batches_on_the_device_is_named_with_the_step(flowers: Dataset) -> None:
    loader = torch_loader(flowers["train"], batch_size=20, image_size=16, workers=0)
    error = error_of(to_device(loader, "cpu", image_transform=fails_for_all))
    assert type(error) is KeyError
    assert error.__notes__ == ["image_transform fails_for_all raised this for the batch of step 0"]
