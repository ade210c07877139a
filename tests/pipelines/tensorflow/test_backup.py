"""A `fit` that is killed goes on exactly: a real SIGKILL, new processes, and weights compared bit for bit.

Every `fit` runs in a child process, this file run as a script: TensorFlow's deterministic operations, its logical
devices and its end by SIGKILL are the process's own.
"""

import json
import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardfeed
from shardfeed.errors import IntegrityError, ShardfeedError, StorageError, UsageError
from shardfeed.readers import Dataset

SIZE, SAMPLES, BATCH, EPOCHS = 12, 67, 8, 3
STEPS = SAMPLES // BATCH  # an epoch leaves 3 samples out
ORDERS = ("global", "stream")
MOMENTS = {  # where a child ends itself, while it saves
    "global": ["within the variables", "before the record"],
    "stream": ["before the variables' name", "before the old variables go"],
}


# --- Killed by SIGKILL, in processes of their own


@pytest.fixture(scope="module")
def started(flowers: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Future[Any]]:
    """All children, two at a time."""
    root = tmp_path_factory.mktemp("backup")
    pool = ThreadPoolExecutor(2)
    futures: dict[str, Future[Any]] = {"cases": pool.submit(run, flowers, root, "cases")}
    for order in ORDERS:
        futures[order] = pool.submit(killed_and_resumed, flowers, root, order)
    futures["whole"] = pool.submit(run, flowers, root, "whole")
    pool.shutdown(wait=False)
    return futures


def start(flowers: Dataset, root: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, flowers.directory, str(root), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(flowers: Dataset, root: Path, *arguments: str) -> dict[str, Any]:
    """Result of a child process that is not killed."""
    out, errors = start(flowers, root, *arguments).communicate(timeout=550)
    lines = out.splitlines() or [""]
    assert lines[-1].startswith("{"), errors[-3000:]
    return json.loads(lines[-1])


def killed_and_resumed(flowers: Dataset, root: Path, order: str) -> dict[str, Any]:
    """One run in four processes: each's first step and the samples of its steps; then what the last one found."""
    lives = []
    for moment in ["by its parent", *MOMENTS[order]]:
        child = start(flowers, root, "killed", order, moment)
        first = child.stdout.readline().removeprefix("from ")
        assert first, child.stderr.read()[-3000:]
        steps = []
        for line in child.stdout:
            steps.append(json.loads(line))
            if moment == "by its parent" and len(steps) == STEPS + 2:
                child.send_signal(signal.SIGKILL)
        end = signal.SIGXFSZ if moment == "within the variables" else signal.SIGKILL
        assert child.wait(60) == -end, child.stderr.read()[-3000:]
        files = sorted(os.listdir(root / order))
        lives.append({"moment": moment, "from": int(first), "steps": steps, "files": files})
    return {"lives": lives, **run(flowers, root, "killed", order, "never")}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.long
def test_killed_and_resumed(started: dict[str, Future[Any]], order: str) -> None:
    whole, resumed = started["whole"].result()[order], started[order].result()
    assert len(whole["losses"]) == EPOCHS
    assert resumed["variables"] == whole["variables"]
    assert len(whole["variables"]) > 20
    # The last process resumed within epoch 1, whose loss covers the rest of it only; epoch 2 it ran whole.
    assert STEPS < resumed["from"] < 2 * STEPS
    assert len(resumed["losses"]) == 2
    assert resumed["losses"][1] == whole["losses"][2]
    assert resumed["losses"][0] != whole["losses"][1]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.long
def test_each_restart_trains_on_the_remaining_batches(started: dict[str, Future[Any]], order: str) -> None:
    whole, resumed = started["whole"].result()[order]["steps"], started[order].result()
    assert len(whole) == EPOCHS * STEPS
    assert len(set(map(str, whole))) == len(whole)
    firsts = [life["from"] for life in resumed["lives"]]
    assert firsts[0] == 0
    assert firsts[1] >= STEPS + 1  # killed in the middle of epoch 1, counted from 0
    assert [*firsts, resumed["from"]] == sorted([*firsts, resumed["from"]])
    for life in [*resumed["lives"], resumed]:
        assert life["steps"]
        assert life["steps"] == whole[life["from"] :][: len(life["steps"])]
    assert len(resumed["steps"]) == EPOCHS * STEPS - resumed["from"]


@pytest.mark.long
def test_the_kills_hit_what_they_aim_at(started: dict[str, Future[Any]]) -> None:
    left = {life["moment"]: life["files"] for order in ORDERS for life in started[order].result()["lives"]}
    for moment in ("within the variables", "before the variables' name"):
        assert [name for name in left[moment] if name.endswith(".npz.partial")]
    for moment in ("before the record", "before the old variables go"):
        assert len([name for name in left[moment] if name.endswith(".npz")]) == 2
    assert "backup.json.partial" in left["before the record"]
    assert "backup.json.partial" not in left["before the old variables go"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.long
def test_one_pair_of_files_remains(started: dict[str, Future[Any]], order: str) -> None:
    assert started[order].result()["files"] == ["backup.json", f"step-{EPOCHS * STEPS:08d}.npz"]


# --- Interrupted by an exception, in one process


@pytest.fixture(scope="module")
def cases(started: dict[str, Future[Any]]) -> dict[str, Any]:
    return started["cases"].result()


INTERRUPTED = [  # steps between backups, step that is interrupted, what is special, steps per execution
    (1, 3, "", 1),
    (3, STEPS + 2, "validation", 1),
    (None, STEPS + 3, "", 1),
    (5, 2 * STEPS, "", 1),
    (None, STEPS + 2, "schedule before", 1),
    (3, STEPS + 5, "schedule before", 1),
    (None, STEPS + 2, "schedule after", 1),
    (3, STEPS + 5, "schedule after", 1),
    (4, STEPS + 6, "", 2),
    (1, STEPS + 3, "two replicas", 1),
    (2, STEPS + 3, "bfloat16", 1),
    (2, STEPS + 3, "two optimizers", 1),
]
"""Each ends with the variables of the run that was not interrupted and is else the same."""


@pytest.mark.parametrize(("every", "stop", "others", "together"), INTERRUPTED)
@pytest.mark.long
def test_interrupted_fit_resumes_exactly(
    cases: dict[str, Any], every: int | None, stop: int, others: str, together: int
) -> None:
    whole, resumed = cases["interrupted"][str((every, stop, others, together))]
    assert resumed["variables"] == whole["variables"]
    first = resumed["from"]
    assert first == (stop - 1) // (every or STEPS) * (every or STEPS)
    assert resumed["steps"] == whole["steps"][first:]
    done, begun = first // STEPS, -(-first // STEPS)  # epochs
    assert resumed["history"]["loss"][begun - done :] == whole["history"]["loss"][begun:]
    if others == "validation":
        assert resumed["history"]["val_loss"] == whole["history"]["val_loss"][done:]
        assert resumed["checkpoints"] == whole["checkpoints"][done:]
        assert len(set(whole["checkpoints"])) == EPOCHS


@pytest.mark.long
def test_a_loop_of_its_own(cases: dict[str, Any]) -> None:
    whole, resumed = cases["loop"]
    assert resumed["steps"] == whole["steps"][2 * 5 :]
    assert resumed["variables"] == whole["variables"]
    assert "position: step 15 was saved with another order: seed was 5, now 6" in cases["loop refused"]


@pytest.mark.long
def test_another_number_of_replicas(cases: dict[str, Any]) -> None:
    whole, resumed = cases["elastic"]
    assert resumed["from"] == STEPS + 3
    assert resumed["steps"] == whole["steps"][STEPS + 3 :]
    assert resumed["final loss"] == pytest.approx(whole["final loss"], rel=1e-4)
    assert np.max(np.abs(np.subtract(resumed["weights"], whole["weights"]))) < 1e-4
    assert np.max(np.abs(np.subtract(cases["elastic start"], whole["weights"]))) > 1e-3


STOPS = ["epoch, first", "epoch, last", "step, first", "step, last", "begin, first"]
"""When another callback wants to stop, and its place beside the Backup."""


@pytest.mark.parametrize("kind", STOPS)
@pytest.mark.long
def test_a_stop_that_another_callback_wants_in_the_resumed_epoch(cases: dict[str, Any], kind: str) -> None:
    assert cases["stops"][kind] == {"from": STEPS + 2, "steps": STEPS - 2, "epochs": [1], "stored": 2 * STEPS}


@pytest.mark.long
def test_early_stopping_after_the_resumed_epoch(cases: dict[str, Any]) -> None:
    assert cases["early stopping"] == [1, 2]


@pytest.mark.long
def test_a_reduced_learning_rate_is_restored(cases: dict[str, Any]) -> None:
    whole, resumed = cases["plateau"]
    assert whole["rates"][2 * STEPS] < whole["rates"][0]
    assert resumed["from"] == 2 * STEPS
    assert resumed["rates"] == whole["rates"][2 * STEPS :]
    assert resumed["weights"] == whole["weights"]


@pytest.mark.long
def test_the_same_lines_again_train_nothing_more(cases: dict[str, Any]) -> None:
    whole, again = cases["finished"]["whole"], cases["finished"]["again"]
    assert again["steps"] == []
    assert again["history"] == {}
    assert again["variables"] == whole["variables"]


@pytest.mark.long
def test_more_epochs_go_on(cases: dict[str, Any]) -> None:
    found = cases["finished"]
    assert found["more"]["from"] == EPOCHS * STEPS
    assert found["more"]["steps"] == found["longer"]["steps"][EPOCHS * STEPS :]
    assert found["more"]["variables"] == found["longer"]["variables"]
    assert found["more, with a schedule"]["variables"] == found["longer, with a schedule"]["variables"]
    assert found["more, with a schedule"]["variables"] != found["more"]["variables"]
    # One Backup for two fits in one process, and a later fit of the model without it starts at epoch 0.
    assert found["twice"]["variables"] == found["longer"]["variables"]
    assert found["twice"]["later epochs"] == [0]


@pytest.mark.long
def test_a_feed_that_starts_later(cases: dict[str, Any]) -> None:
    """`start_step` is where a run without a backup starts; with one it does not count."""
    assert cases["later start"] == [[STEPS + 1, [1, 2]], [EPOCHS * STEPS, []]]


@pytest.mark.long
def test_a_loss_that_is_no_number_is_not_saved(cases: dict[str, Any]) -> None:
    assert cases["not a number"] == {"steps": 4, "stored": 2}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("feed.batches", "fit: it resumes at step 0, but the batches do not start there; pass backup.batches to fit"),
        ("batches of another step", "fit: it resumes at step 4, but the batches do not start there"),
        ("no steps_per_epoch", f"steps_per_epoch: got None, expected {STEPS}, as in the feed"),
        (
            "other steps_per_epoch",
            "as in the feed; for other epochs pass to distribute order=Global(epoch_samples=...)",
        ),
        ("initial_epoch", "initial_epoch: got 2, but the batches are those of epoch 0; leave it out"),
        ("every 3, 2 at once", "every: got 3, expected a multiple of steps_per_execution, 2"),
        ("3 at once", f"steps_per_epoch: got {STEPS}, expected a multiple of steps_per_execution, 3"),
        ("step 3, 2 at once", "step: got 3, expected a multiple of steps_per_execution, 2"),
        ("not built", "model: not built, so its weights cannot be restored; add an Input"),
        ("another optimizer", "holds the variables of another model or optimizer; build the same model and optimizer"),
        ("another layer", "holds the variables of another model or optimizer; build the same model and optimizer"),
        ("variables damaged", "step-00000004.npz: changed since it was written: its checksum does not match"),
        ("variables gone", "step-00000004.npz: cannot be read: No such file or directory; restore it, or start"),
    ],
)
@pytest.mark.long
def test_fits_that_cannot_resume_are_refused(cases: dict[str, Any], name: str, message: str) -> None:
    assert message in cases["refused"][name]


@pytest.mark.long
def test_the_backup_before_a_failed_one_is_whole(cases: dict[str, Any]) -> None:
    found = cases["limited"]
    assert "step-00000002.npz: cannot write: File too large (EFBIG)" in found["error"]
    assert found["files"] == ["backup.json", "step-00000001.npz"]
    assert found["from"] == 1
    assert found["variables"] == cases["finished"]["whole"]["variables"]


# --- Refused when it is made


@pytest.mark.long
def test_another_order_is_refused(flowers: Dataset, started: dict[str, Future[Any]], tmp_path: Path) -> None:
    import tensorflow as tf

    from shardfeed.errors import OrderMismatchError
    from shardfeed.pipelines import distribute
    from shardfeed.pipelines.tensorflow.backup import Backup

    started["global"].result()
    directory = started["whole"].result()["root"] + "/global"
    train, strategy = flowers["train"][:SAMPLES], tf.distribute.get_strategy()
    same: dict[str, Any] = {"batch_size": BATCH, "image_size": SIZE, "seed": 5, "order": "global"}
    assert Backup(directory, distribute(strategy, train, **same)).step == EPOCHS * STEPS
    for samples, changed, what in [
        (train, {"seed": 6}, "seed was 5, now 6"),
        (train, {"batch_size": 4}, "batch_size was 8, now 4"),
        (train, {"order": "stream"}, 'kind was "global", now "stream"'),
        (flowers["train"][1 : SAMPLES + 1], {}, 'dataset was "'),
    ]:
        with pytest.raises(OrderMismatchError, match=f"step {EPOCHS * STEPS} was saved with another order: .*{what}"):
            Backup(directory, distribute(strategy, samples, **{**same, **changed}))
    with pytest.raises(UsageError, match="every: got 0, expected an integer of at least 1"):
        Backup(tmp_path, distribute(strategy, train, **same), every=0)
    with pytest.raises(StorageError, match="No such file or directory"):
        Backup(tmp_path / "none" / "run", distribute(strategy, train, **same))


@pytest.mark.long
def test_a_damaged_record_is_refused(flowers: Dataset, started: dict[str, Future[Any]], tmp_path: Path) -> None:
    import tensorflow as tf

    from shardfeed.pipelines import distribute
    from shardfeed.pipelines.tensorflow.backup import Backup

    started["global"].result()
    good = Path(started["whole"].result()["root"], "global", "backup.json").read_text()
    feed = distribute(
        tf.distribute.get_strategy(), flowers["train"], batch_size=BATCH, image_size=SIZE, seed=5, order="global"
    )
    record = tmp_path / "backup.json"
    for bad in (
        "",
        "null",
        "{}",
        good[:-3],
        good.replace(f'"step": {EPOCHS * STEPS}', '"step": 1'),
        good.replace('"before": "end"', '"before": "epoch"'),
        good.replace("step-000", "step-100"),
        good.replace('"format": 1', '"format": 2'),
    ):
        assert bad != good
        record.write_text(bad)
        with pytest.raises(IntegrityError, match=r"backup\.json: not a (backup|position)"):
            Backup(tmp_path, feed)
    record.write_bytes(b"\xff")
    with pytest.raises(IntegrityError, match="not a backup"):
        Backup(tmp_path, feed)


# --- What follows runs in the children.


class Child:
    """Fits over parts of a dataset, in a process that is set up for them."""

    def __init__(self, dataset: str, root: str) -> None:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        import keras
        import tensorflow as tf

        (cpu, *_) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        tf.config.experimental.enable_op_determinism()
        keras.utils.set_random_seed(0)
        self.strategies = {1: tf.distribute.get_strategy(), 2: tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])}
        self.train = shardfeed.open(dataset)["train"][:SAMPLES]
        self.validation = shardfeed.open(dataset)["validation"]
        self.root = Path(root)
        self.seen: list[list[int]] = []  # the samples that each replica was given
        self.models: dict[Any, Any] = {}

    def feed(self, replicas: int = 1, **options: Any) -> Any:
        from shardfeed.pipelines import Stream, distribute, random_resized_crop

        crop = random_resized_crop(SIZE)

        def transform(features: Any, seed: Any) -> Any:
            return {"image": crop(features, seed), "place": seed[1]}, features["image/class/label"]

        options = {"batch_size": BATCH, "transform": transform, "seed": 5, "order": "global", **options}
        if options["order"] == "stream":
            options["order"] = Stream(buffer=20)
        return distribute(self.strategies[replicas], self.train, **options)

    def model(self, replicas: int = 1, *, kind: str = "", **options: Any) -> Any:
        """A new model; `kind`: "elastic" is one that the number of replicas does not change."""
        import keras
        import tensorflow as tf

        layers, child, random = keras.layers, self, kind != "elastic"

        class Seen(layers.Layer):
            """Passes the images on, and notes which samples they are."""

            def call(self, image: Any, place: Any, training: bool = False) -> Any:
                if training:
                    tf.numpy_function(child.note, [place], [])
                return image

        class TwoOptimizers(keras.Model):
            """A step of its own, with another optimizer for the last layer."""

            def train_step(self, data: Any) -> dict[str, Any]:
                x, y = data
                with tf.GradientTape() as tape:
                    predicted = self(x, training=True)
                    loss = self.compute_loss(x, y, predicted)
                trained = self.trainable_variables
                pairs = list(zip(tape.gradient(loss, trained), trained, strict=True))
                self.optimizer.apply_gradients(pairs[:-2])
                self.second.apply_gradients(pairs[-2:])
                return {**self.compute_metrics(x, y, predicted), "loss": loss}

        with self.strategies[replicas].scope():
            image, place = layers.Input((SIZE, SIZE, 3), name="image"), layers.Input((), dtype="int64", name="place")
            x = layers.Rescaling(1 / 255)(Seen()(image, place))
            if random:
                x = layers.RandomFlip()(x)
            x = layers.Conv2D(6, 3, use_bias=False)(x)
            x = layers.BatchNormalization(synchronized=not random)(x)
            x = layers.GlobalAveragePooling2D()(layers.ReLU()(x))
            if random:
                x = layers.Dropout(0.3)(x)
            x = layers.Dense(3, dtype="bfloat16" if kind == "bfloat16" else None)(x)
            made = (TwoOptimizers if kind == "two optimizers" else keras.Model)({"image": image, "place": place}, x)
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            options = {"optimizer": keras.optimizers.Adam(0.01), "loss": loss, "metrics": ["accuracy"], **options}
            made.compile(jit_compile=False, **options)
            made.optimizer.build(made.trainable_variables)
            if kind == "two optimizers":
                made.second = keras.optimizers.SGD(0.1, momentum=0.9)
                made.second.build(made.trainable_variables[-2:])
        return made

    def fresh(self, replicas: int, other: bool, **options: Any) -> Any:
        """A model as it was made; `other`: with other weights, masks and rate. One of each kind, to be traced once."""
        key = str((replicas, options))
        if key not in self.models:
            made = self.model(replicas, **options)
            self.models[key] = made, [value_of(variable) for variable in state_of(made)]
        made, values = self.models[key]
        for variable, value in zip(state_of(made), values, strict=True):
            variable.assign(value + np.ones_like(value) if other else value)
        return made

    def note(self, place: np.ndarray) -> None:
        self.seen.append(place.tolist())

    def fit(
        self,
        name: str,
        *,
        every: int | None = None,
        stop: int = 0,
        epochs: int = EPOCHS,
        replicas: int = 1,
        before: Any = (),
        after: Any = (),
        model: dict[str, Any] | None = None,
        feed: Any = None,
        **options: Any,
    ) -> dict[str, Any]:
        """One fit with a Backup in directory `name`, and other callbacks before and after it.

        With `stop` it is interrupted in that step. A model that must be restored starts from other values.
        """
        from shardfeed.pipelines.tensorflow.backup import Backup

        feed = feed or self.feed(replicas)
        backup = Backup(self.root / name, feed, every=every)
        made = self.fresh(replicas, backup.step > 0, **(model or {}))
        found: dict[str, Any] = {"from": backup.step, "model": made, "backup": backup}
        self.seen = []
        with suppress(KeyboardInterrupt):
            done = made.fit(
                backup.batches,
                steps_per_epoch=feed.steps_per_epoch,
                epochs=epochs,
                callbacks=[*before, backup, *after, *([interrupt(stop - backup.step)] if stop else [])],
                shuffle=False,
                verbose=0,
                **options,
            )
            found |= {"history": dict(done.history), "epochs": done.epoch}
        # What the replicas of a step had, in any order.
        steps = [sorted(self.seen[i : i + replicas]) for i in range(0, len(self.seen), replicas)]
        return {**found, "steps": [[place for part in step for place in part] for step in steps]}

    def refused(self, name: str, **options: Any) -> str:
        """The error of a fit."""
        try:
            self.fit(name, **options)
        except ShardfeedError as error:
            return str(error)
        return "not refused"


def interrupt(steps: int) -> Any:
    """A callback that ends `fit` as Ctrl-C does, in step `steps`, counted from 1."""
    import keras

    class Interrupt(keras.callbacks.Callback):
        done = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.done += self.model.steps_per_execution
            if self.done >= steps:
                raise KeyboardInterrupt

    return Interrupt()


def value_of(variable: Any) -> np.ndarray:
    import keras

    return np.asarray(keras.ops.convert_to_numpy(variable))


def state_of(model: Any) -> list[Any]:
    second = model.second.variables if hasattr(model, "second") else []
    return [*model.variables, *model.optimizer.variables, *second]


def variables(model: Any) -> list[str]:
    """All that training changes, exactly: each variable's bytes."""
    return [value_of(variable).tobytes().hex() for variable in state_of(model)]


def exactly(found: dict[str, Any]) -> dict[str, Any]:
    """Result of a fit with the values of its variables, as JSON."""
    return {"variables": variables(found["model"])} | {
        key: value for key, value in found.items() if key not in ("model", "backup")
    }


def weights(found: dict[str, Any]) -> list[float]:
    return [float(number) for value in found["model"].get_weights() for number in np.ravel(value)]


def run_whole(child: Child) -> dict[str, Any]:
    """Both orders without interruption, and without a Backup."""
    import keras

    found: dict[str, Any] = {"root": str(child.root)}
    for order in ORDERS:
        keras.utils.set_random_seed(1)
        child.seen = []
        model, feed = child.model(), child.feed(order=order)
        done = model.fit(feed.batches, steps_per_epoch=feed.steps_per_epoch, epochs=EPOCHS, verbose=0, shuffle=False)
        found[order] = {"losses": done.history["loss"], "steps": child.seen, "variables": variables(model)}
    return found


def run_killed(child: Child, order: str, moment: str) -> dict[str, Any]:
    """One life of a run: it tells its parent what it sees, and ends itself in its third save if it is told to."""
    import time

    import keras

    from shardfeed.pipelines.tensorflow.backup import Backup

    armed = False
    event, prefix = {
        "before the variables' name": ("os.rename", "step-"),
        "before the record": ("os.rename", "backup.json"),
        "before the old variables go": ("os.remove", "step-"),
    }.get(moment, ("", ""))

    def watch(happening: str, arguments: Any) -> None:
        if armed and happening == event and os.path.basename(arguments[event == "os.rename"]).startswith(prefix):
            os.kill(os.getpid(), signal.SIGKILL)

    class Aim(keras.callbacks.Callback):
        """Tells the parent each step, waits where it is to be killed, and arms the child's own end."""

        done = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            nonlocal armed
            if moment != "never":
                print(json.dumps(child.seen[-1]), flush=True)
                time.sleep(600 if moment == "by its parent" and len(child.seen) == STEPS + 2 else 0)
            self.done += 1
            armed = self.done >= 2
            if (
                armed and moment == "within the variables"
            ):  # in the write that passes a size the kernel ends the process
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    sys.addaudithook(watch)
    feed = child.feed(order=order)
    backup = Backup(child.root / order, feed, every=1)
    first = backup.step
    keras.utils.set_random_seed(99 if first else 1)  # a model to restore starts with other weights and masks
    model = child.model()
    if moment != "never":
        print(f"from {first}", flush=True)
    done = model.fit(
        backup.batches,
        steps_per_epoch=feed.steps_per_epoch,
        epochs=EPOCHS,
        callbacks=[Aim(), backup],
        verbose=0,
        shuffle=False,
    )
    return {
        "from": first,
        "losses": done.history["loss"],
        "steps": child.seen,
        "variables": variables(model),
        "files": sorted(os.listdir(child.root / order)),
    }


def run_cases(child: Child) -> dict[str, Any]:
    groups = (interrupted, loop, elastic, stops, plateau, after_the_end, not_a_number, refusals, limited)
    return {key: value for group in groups for key, value in group(child).items()}


def interrupted(child: Child) -> dict[str, Any]:
    from keras import callbacks

    from shardfeed.pipelines import eval_batches

    validation = eval_batches(child.validation, batch_size=8, image_size=SIZE).map(
        lambda image, label: ({"image": image, "place": label}, label)
    )

    class Checkpoints(callbacks.ModelCheckpoint):
        """Keeps what was saved."""

        def __init__(self) -> None:
            super().__init__(str(child.root / "checkpoint.weights.h5"), save_weights_only=True)
            self.saved: list[str] = []

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            super().on_epoch_end(epoch, logs)
            self.saved.append(" ".join(variables(self.model)))

    def fit(name: str, others: str, together: int, **options: Any) -> dict[str, Any]:
        checkpoints = Checkpoints()
        schedule = callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
        if others == "schedule before":
            options["before"] = [schedule]
        if others == "schedule after":
            options["after"] = [schedule]
        if others == "validation":
            options |= {"after": [checkpoints], "validation_data": validation}
        if others == "two replicas":
            options["replicas"] = 2
        kind = others if others in ("bfloat16", "two optimizers") else ""
        found = child.fit(name, model={"steps_per_execution": together, "kind": kind}, **options)
        return {**exactly(found), "checkpoints": checkpoints.saved}

    wholes: dict[Any, Any] = {}
    found = {}
    for number, (every, stop, others, together) in enumerate(INTERRUPTED):
        kind = others, together
        if kind not in wholes:
            wholes[kind] = fit(f"whole {number}", *kind)
        fit(f"interrupted {number}", *kind, every=every, stop=stop)
        resumed = fit(f"interrupted {number}", *kind, every=every)
        found[str((every, stop, others, together))] = [wholes[kind], resumed]
    return {"interrupted": found}


def loop(child: Child) -> dict[str, Any]:
    """As in docs/resume.md: without Keras's `fit`, the position is a variable of the checkpoint."""
    import tensorflow as tf

    def train(name: str, last: int, other: bool, **options: Any) -> dict[str, Any]:
        feed, model = child.feed(**options), child.fresh(1, other)
        child.seen = []
        position = tf.Variable(feed.position(0))
        checkpoint = tf.train.Checkpoint(position=position, variables=model.variables + model.optimizer.variables)
        manager = tf.train.CheckpointManager(checkpoint, str(child.root / name), max_to_keep=2)
        checkpoint.restore(manager.latest_checkpoint)
        feed = feed.at(position.numpy())
        batches = iter(feed.batches)
        for step in range(feed.start_step, last):
            images, labels = next(batches)
            with tf.GradientTape() as tape:
                loss = model.loss(labels, model(images, training=True))
            trained = model.trainable_variables
            model.optimizer.apply_gradients(zip(tape.gradient(loss, trained), trained, strict=True))
            if (step + 1) % 5 == 0:
                position.assign(feed.position(step + 1))
                manager.save()
        return exactly({"model": model, "steps": child.seen})

    whole = train("loop whole", 2 * STEPS, False)
    train("loop", STEPS + 5, False)
    resumed = train("loop", 2 * STEPS, True)
    try:
        train("loop", 2 * STEPS, True, seed=6)
    except UsageError as error:
        return {"loop": [whole, resumed], "loop refused": str(error)}
    return {}


def elastic(child: Child) -> dict[str, Any]:
    """Without Dropout, whose masks are each replica's own."""
    model = {"kind": "elastic"}

    def summary(found: dict[str, Any]) -> dict[str, Any]:
        return {
            "from": found["from"],
            "steps": [sorted(step) for step in found["steps"]],
            "final loss": found["history"]["loss"][-1],
            "weights": weights(found),
        }

    whole = summary(child.fit("elastic whole", model=model))
    started = weights(child.fit("elastic", model=model, every=1, stop=STEPS + 4))
    child.models.clear()
    return {
        "elastic": [whole, summary(child.fit("elastic", model=model, every=1, replicas=2))],
        "elastic start": started,
    }


def stops(child: Child) -> dict[str, Any]:
    from keras import callbacks

    class Stop(callbacks.Callback):
        """Wants training to stop, in the last step of the epoch that is resumed or at its end."""

        def __init__(self, when: str) -> None:
            super().__init__()
            self.when = when
            self.steps = 0

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.steps += 1
            self.stop("begin", self.steps == STEPS - 2)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.stop("step", self.steps == STEPS - 2)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.stop("epoch", True)

        def stop(self, when: str, now: bool) -> None:
            if self.when == when and now:
                self.model.stop_training = True

    found = {}
    for kind in STOPS:
        when, place = kind.split(", ")
        child.fit(kind, every=2, stop=STEPS + 3)
        done = child.fit(kind, every=2, **{"before" if place == "first" else "after": [Stop(when)]})
        found[kind] = {
            "from": done["from"],
            "steps": len(done["steps"]),
            "epochs": done["epochs"],
            "stored": done["backup"].step,
        }
    child.fit("early", every=2, stop=STEPS + 3)
    early = callbacks.EarlyStopping("loss", min_delta=1e9, patience=0)
    return {"stops": found, "early stopping": child.fit("early", every=2, epochs=9, before=[early])["epochs"]}


def plateau(child: Child) -> dict[str, Any]:
    """A learning rate that another callback changes at the end of an epoch."""
    from keras import callbacks

    class Rates(callbacks.Callback):
        """The learning rate of each step."""

        def __init__(self) -> None:
            super().__init__()
            self.rates: list[float] = []

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.rates.append(float(self.model.optimizer.learning_rate))

    def fit(name: str, **options: Any) -> dict[str, Any]:
        rates = Rates()
        reduce = callbacks.ReduceLROnPlateau("loss", min_delta=1e9, patience=0, factor=0.3)
        found = child.fit(name, after=[reduce, rates], **options)
        return {"from": found["from"], "rates": rates.rates, "weights": weights(found)}

    whole = fit("plateau whole")
    fit("plateau", stop=2 * STEPS + 3)
    return {"plateau": [whole, fit("plateau")]}


def after_the_end(child: Child) -> dict[str, Any]:
    from keras import callbacks

    def scheduled(name: str, **options: Any) -> dict[str, Any]:
        schedule = callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
        return exactly(child.fit(name, before=[schedule], **options))

    scheduled("scheduled")
    found = {
        "whole": exactly(child.fit("finished")),
        "again": exactly(child.fit("finished")),
        "more": exactly(child.fit("finished", epochs=EPOCHS + 1)),
        "longer": exactly(child.fit("longer", epochs=EPOCHS + 1)),
        "more, with a schedule": scheduled("scheduled", epochs=EPOCHS + 1),
        "longer, with a schedule": scheduled("scheduled longer", epochs=EPOCHS + 1),
    }
    twice = child.fit("twice")
    backup, model, fitted = twice["backup"], twice["model"], {"steps_per_epoch": STEPS, "verbose": 0, "shuffle": False}
    model.fit(backup.batches, epochs=EPOCHS + 1, callbacks=[backup], **fitted)
    found["twice"] = {"variables": variables(model), "later epochs": model.fit(child.feed().batches, **fitted).epoch}
    later = child.feed().at(STEPS + 1)
    starts = [child.fit("later", feed=later) for _ in range(2)]
    return {"finished": found, "later start": [[fit["from"], fit["epochs"]] for fit in starts]}


def not_a_number(child: Child) -> dict[str, Any]:
    from keras import callbacks

    class Spoil(callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 2:
                self.model.set_weights([value * np.nan for value in self.model.get_weights()])

    found = child.fit("nan", every=2, after=[Spoil(), callbacks.TerminateOnNaN()])
    return {"not a number": {"steps": len(found["steps"]), "stored": found["backup"].step}}


def refusals(child: Child) -> dict[str, Any]:
    import keras

    from shardfeed.pipelines.tensorflow.backup import Backup

    found = {}
    feed = child.feed()
    fitted = {"steps_per_epoch": STEPS, "verbose": 0, "shuffle": False}

    def refused(name: str, batches: Any = None, model: Any = None, **options: Any) -> None:
        try:
            backup = Backup(child.root / "refused", feed)
            batches = batches or backup.batches
            (model or child.fresh(1, False)).fit(batches, callbacks=[backup], **{**fitted, **options})
            found[name] = "not refused"
        except ShardfeedError as error:
            found[name] = str(error)

    refused("feed.batches", feed.batches)
    refused("no steps_per_epoch", steps_per_epoch=None)
    refused("other steps_per_epoch", steps_per_epoch=5)
    refused("initial_epoch", initial_epoch=2, epochs=4)
    unbuilt = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)])
    unbuilt.compile("sgd", "mse")
    refused("not built", model=unbuilt)
    found["every 3, 2 at once"] = child.refused("refused", every=3, model={"steps_per_execution": 2})
    found["3 at once"] = child.refused("refused", model={"steps_per_execution": 3})
    child.fit("three", every=3, stop=4)
    found["step 3, 2 at once"] = child.refused("three", model={"steps_per_execution": 2})

    # A second fit with the batches of the first one.
    backup = Backup(child.root / "four", feed, every=4)
    batches = backup.batches
    with suppress(KeyboardInterrupt):
        child.fresh(1, False).fit(batches, callbacks=[backup, interrupt(5)], **fitted)
    try:
        child.fresh(1, False).fit(batches, callbacks=[backup], **fitted)
    except UsageError as error:
        found["batches of another step"] = str(error)

    found["another optimizer"] = child.refused("four", model={"optimizer": "sgd"})
    found["another layer"] = child.refused("four", model={"kind": "elastic"})
    path = child.root / "four" / "step-00000004.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found["variables damaged"] = child.refused("four")
    path.unlink()
    found["variables gone"] = child.refused("four")
    return {"refused": found}


def limited(child: Child) -> dict[str, Any]:
    """A disk that takes no more: from the second step on no file may pass a size."""
    from keras import callbacks

    class Limit(callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 1:
                resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    error = child.refused("limited", every=1, before=[Limit()])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    files = sorted(os.listdir(child.root / "limited"))
    found = exactly(child.fit("limited", every=1))
    return {"limited": {"error": error, "files": files, "from": found["from"], "variables": found["variables"]}}


if __name__ == "__main__":
    dataset, root, what, *arguments = sys.argv[1:]
    runs: dict[str, Any] = {"whole": run_whole, "cases": run_cases, "killed": run_killed}
    print(json.dumps(runs[what](Child(dataset, root), *arguments)))
