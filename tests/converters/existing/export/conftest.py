"""Readers are tested by many small conversions, of which one worker's runs here: to start a process takes longer."""

from typing import Any

import pytest

from shardfeed.converters import conversion
from shardfeed.converters.engines.choose_engine import LocalWorkers, choose_engine
from shardfeed.converters.engines.engine import Engine

from in_process import OwnEngine


@pytest.fixture(autouse=True)
def one_worker_is_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards are written by the same function, without a process around it."""

    def choose(workers: Any, tries: str) -> Engine:
        return (
            OwnEngine(1) if workers in (1, LocalWorkers(1), LocalWorkers(1, "auto")) else choose_engine(workers, tries)
        )

    monkeypatch.setattr(conversion, "choose_engine", choose)
