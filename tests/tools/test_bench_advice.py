"""Advice for constructed figures."""

from dataclasses import replace

import pytest

from shardfeed.tools.bench.advice import Advice, Figures, advise
from shardfeed.tools.bench.stored_otherwise import Variant

PHOTOS = Figures(
    samples=1_000_000,
    dataset_bytes=10**11,
    memory_free_bytes=10**12,
    cores=4,
    parallelism=4,
    batch_size=100,
    image_size=224,
    cpu_us=1000,
    read_us=120,
    rate=3900,
    inside_rate=3950,
    disk_rate=9000,
    progressive=0.0,
    median_size=(375, 500),
    variants=(),
)


def everything_fits(size: int) -> bool:
    return size > 0


def nothing_fits(size: int) -> bool:
    return size < 0


def variant(name: str, cpu_us: float, bytes_per_image: float = 30_000) -> Variant:
    return Variant(name, cpu_us, original_us=900, bytes_per_image=bytes_per_image, original_bytes=65_000)


def only(figures: Figures, fits: object = everything_fits) -> Advice:
    (advice,) = advise(figures, fits)  # type: ignore[arg-type]
    return advice


def test_a_pipeline_with_nothing_to_gain() -> None:
    assert advise(PHOTOS, everything_fits) == []


def test_large_images() -> None:
    advice = only(replace(PHOTOS, variants=[variant("resized", 400)]))
    assert "--resize-shorter 256" in advice.change
    assert advice.factor == pytest.approx(1000 / (1000 - 900 + 400))
    assert advice.estimate.startswith("measured")
    assert "500x375" in advice.why
    assert advice.enough is None
    assert advise(replace(PHOTOS, variants=[variant("resized", 850)]), everything_fits) == []  # not worth it
    # Of what the sample did not have, no more is counted than reading costs.
    assert only(replace(PHOTOS, read_us=20, variants=[variant("resized", 400)])).factor == pytest.approx(920 / 420)


def test_seekable_images() -> None:
    advice = only(replace(PHOTOS, variants=[variant("seekable", 500)]))
    assert "--seekable" in advice.change
    assert 'order="global"' in advice.why


def test_progressive_images() -> None:
    advice = only(replace(PHOTOS, progressive=0.6, variants=[variant("baseline", 300)]))
    assert "--baseline" in advice.change
    assert "60%" in advice.why


def test_pngs() -> None:
    assert "JPEG" in only(replace(PHOTOS, variants=[variant("jpeg", 300)])).change


def test_pixels_go_to_memory_or_to_disk() -> None:
    figures = replace(PHOTOS, variants=[variant("raw", 100, 500_000)])
    in_memory = only(figures)
    assert 'cached(split, Cache("/dev/shm", decoded=True))' in in_memory.change
    assert in_memory.factor == pytest.approx(5.0)
    assert "500.0 GB" in in_memory.why
    # 9,000 JPEGs a second from the disk are 1,170 images of pixels: slower than what there is.
    assert advise(figures, nothing_fits) == []
    on_disk = only(replace(figures, disk_rate=60_000), nothing_fits)
    assert "--encode raw" in on_disk.change
    assert on_disk.factor == pytest.approx(60_000 * 65 / 500 / 3900)


def test_of_pixels_too_large_for_memory_the_smaller_ones_are_offered() -> None:
    both = [variant("raw", 100, 500_000), variant("resized_raw", 110, 200_000)]
    figures = replace(PHOTOS, variants=both, disk_rate=60_000)
    assert "--resize-shorter 256 --encode raw" in only(figures, nothing_fits).change
    small = only(figures, lambda size: size <= 200_000_000_000)
    assert "--resize-shorter 256, then" in small.change
    assert len(advise(figures, everything_fits)) == 2


def test_the_disk() -> None:
    slow = replace(PHOTOS, disk_rate=1300, dataset_bytes=2 * 10**12)
    advice = only(slow)
    assert "FASTER DISK" in advice.change
    assert advice.factor == pytest.approx(3.0)
    assert advise(replace(slow, dataset_bytes=10**11), everything_fits) == []  # it stays in memory


def test_cores() -> None:
    waiting = replace(PHOTOS, model_ms=10, lost_share=0.6)  # 10,000 images/s
    advice = only(waiting)
    assert advice.change.startswith("11 cores")
    assert advice.enough is True
    assert "computed" in advice.estimate
    assert advise(replace(waiting, rate=1000, inside_rate=1000), everything_fits) == []  # not the CPU that limits
    # Other processes had three quarters of the cores: then it is the CPU after all, and as many are enough.
    shared = replace(waiting, rate=1000, inside_rate=2000, busiest_share=0.25)
    assert only(shared).change.startswith("10 cores")


def test_threads() -> None:
    advice = only(replace(PHOTOS, parallelism=1, rate=1000, inside_rate=1000))
    assert "--parallelism" in advice.change
    assert advice.factor == 4.0


def test_the_loop_that_takes_batches() -> None:
    advice = only(replace(PHOTOS, rate=1000, inside_rate=3900))
    assert "tf.function" in advice.change
    assert advice.factor == pytest.approx(3.9)
    larger = only(replace(PHOTOS, larger_batch=(400, 500)))
    assert "batches of 400" in larger.change
    assert larger.factor == 2.0


def test_what_helps_most_comes_first_and_whether_it_is_enough() -> None:
    variants = [variant("baseline", 700), variant("resized", 300), variant("raw", 50)]
    waiting = replace(PHOTOS, progressive=1.0, variants=variants, model_ms=12, lost_share=0.5)  # 8,333 images/s
    found = advise(waiting, everything_fits)
    factors = [advice.factor for advice in found]
    assert factors == sorted(factors, key=lambda factor: -(factor or 0))
    assert len(found) == 4  # and the cores
    assert {advice.change.split()[-1]: advice.enough for advice in found} == {
        "train_batches": True,
        "256": True,
        "process": True,
        "--baseline": False,
    }


def test_nothing_helps_where_the_model_is_the_bottleneck() -> None:
    figures = replace(PHOTOS, variants=[variant("resized", 100)], model_ms=100, lost_share=0.001)
    assert figures.model_bound
    assert advise(figures, everything_fits) == []
    assert advise(replace(figures, lost_share=0.3), everything_fits) != []
