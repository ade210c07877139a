"""What a pipeline costs an image, and what of it is only noise."""

from types import SimpleNamespace

import pytest

from shardfeed.tools.bench import rounds
from shardfeed.tools.bench.rounds import Contender, handed_over, measure_rounds, stage_costs, through


def test_stages_add_up_to_the_whole() -> None:
    prefixes = [[10.0, 11.0, 9.0], [14.0, 16.0, 15.0], [100.0, 90.0, 110.0], [130.0, 128.0, 150.0]]
    stages = stage_costs(prefixes)
    assert [stage.cpu_us for stage in stages] == [10.0, 5.0, 85.0, 30.0]
    assert sum(stage.cpu_us for stage in stages) == 130.0
    assert [stage.noise_us for stage in stages] == [1.0, 1.0, (95 - 74) / 2, (40 - 30) / 2]
    assert not any(stage.below_noise for stage in stages)


def test_no_stage_is_negative() -> None:
    stages = stage_costs([[20.0, 20.0], [50.0, 60.0], [40.0, 42.0], [70.0, 70.0]])
    costs = [stage.cpu_us for stage in stages]
    assert costs == [20.0, 21.0, 0.0, 29.0]
    assert sum(costs) == 70.0
    assert stages[2].below_noise


def test_a_small_difference_is_below_the_noise() -> None:
    _, second = stage_costs([[100.0, 120.0, 80.0], [103.0, 103.0, 103.0]])
    assert second.cpu_us == 3.0
    assert second.noise_us == 20.0
    assert second.below_noise


def test_what_a_run_costs_whatever_its_length_is_no_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of its own: on a busy machine a run may stand still whenever it likes."""
    now = SimpleNamespace(cpu=0.0, wall=0.0)
    clock = SimpleNamespace(process_time=lambda: now.cpu, perf_counter=lambda: now.wall)
    monkeypatch.setattr(rounds, "time", clock)

    def consume(images: int) -> int:
        now.cpu += 0.05 + images * 0.002
        now.wall += 0.2 + images * 0.003
        return 1

    contender = Contender(lambda: 30, 30, 5, 5, consume)
    (cost,) = measure_rounds({"burner": contender}, 1)["burner"]
    assert cost.cpu_us == pytest.approx(2000)
    assert cost.wall_us == pytest.approx(3000)


def test_rounds_alternate_and_start_anew() -> None:
    seen: list[str] = []

    def contender(name: str) -> Contender:
        return Contender(lambda: seen.append(f"make {name}"), 10, None, 10, lambda dataset: len(seen))

    ticks: list[int] = []
    found = measure_rounds({"a": contender("a"), "b": contender("b")}, 3, lambda: ticks.append(1))
    assert seen == ["make a", "make b"] * 3
    assert {name: len(costs) for name, costs in found.items()} == {"a": 3, "b": 3}
    assert len(ticks) == 6


def test_both_ways_go_through_all_batches() -> None:
    import tensorflow as tf

    seen: list[int] = []

    def see(number: tf.Tensor) -> tf.Tensor:
        return tf.numpy_function(lambda n: (seen.append(int(n)), n)[1], [number], tf.int64)

    numbers = tf.data.Dataset.range(10).map(see).batch(4)
    assert through(numbers) == 3
    assert sorted(seen) == list(range(10))
    seen.clear()
    pairs = tf.data.Dataset.zip((numbers, numbers))
    assert handed_over(pairs) == 3
    assert len(seen) == 20
    assert through(pairs) == 3
