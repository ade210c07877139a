"""Check of the extras that the core named in its errors, as tests/support/core_only.py printed them."""

import re

from shardfeed import pipelines

WITHOUT_EXTRA = {"Cache", "Position", "cached", "mix", "order_samples", "prefetch_threads", "prefetch_processes"}


def extras_named(said: str) -> dict[str, str]:
    """Read one line per error: the place that needs an extra -> the extra to install."""
    line = re.compile(r"(?:shardfeed: )?([^:]+): .* is not installed; pip install 'shardfeed\[(\w+)\]'.*")
    found = [line.fullmatch(each) for each in said.splitlines()]
    assert all(found), said
    return {match[1]: match[2] for match in found if match}


def check_what_was_named(named: dict[str, str]) -> None:
    """Check that an extra was named for everything that needs one, and for nothing else."""
    for place in ("cache", "shardfeed bench", "shardfeed demo"):
        assert named.pop(place) == "tensorflow"
    for place in ("prefetch_ray", "workers"):
        assert named.pop(place) == "ray"
    assert named.pop("baseline") == "baseline"
    assert named.pop("--plot") == "bench"
    assert named.pop("report") == "report"
    of_shardfeed = {place: named.pop(place) for place in list(named) if place.count(".") == 1}
    assert of_shardfeed["shardfeed.train_batches"] == "tensorflow"
    assert of_shardfeed["shardfeed.torch_loader"] == "torch"
    assert of_shardfeed["shardfeed.keras_batches"] == "keras"
    places = {name: f"shardfeed.pipelines.{name}" for name in pipelines.__all__}
    of_pipelines = {name: named.pop(place) for name, place in places.items() if place in named}
    assert of_pipelines.pop("keras_batches") == "keras"
    assert {*of_pipelines.values()} == {"tensorflow"}
    assert {"train_batches", "eval_batches", "distribute", "Backup", "as_dataset"} <= {*of_pipelines}
    assert not WITHOUT_EXTRA & {*of_pipelines}
    assert {*named.values()} == {"torch"}
    assert {place.rpartition(".")[0] for place in named} == {"shardfeed.pipelines.torch"}
