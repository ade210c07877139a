# /// script
# dependencies = ["shardfeed[torch]", "torch==2.13.0", "lightning==2.6.6"]
# ///
"""Lightning: epochs, a resume in the middle of one, and two processes."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import lightning
import torch
from program import Data, check, main

import shardfeed
from shardfeed.pipelines.torch import torch_loader


def pick(record, seed):
    return record["image/filename"].decode()


class Names(lightning.LightningModule):
    """Trains nothing, and keeps what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.names: list[str] = []

    def training_step(self, batch, number):
        self.names += batch
        return self.weight * 1.0

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def trainer(folder: str, **options):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    return lightning.Trainer(default_root_dir=folder, **quiet, **options)


def loader(data: Data):
    return torch_loader(shardfeed.open(data.folder())["train"], batch_size=8, transform=pick, seed=3, workers=1)


@check("Lightning `Trainer`", "lightning", "trainer.fit(model, torch_loader(...))")
def epochs(data: Data) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = Names()
        trainer(folder, max_epochs=1, enable_checkpointing=False).fit(model, loader(data))
    data.compare("train", model.names, "name")


@check(
    "Lightning, resumed within an epoch",
    "lightning",
    'trainer.fit(model, torch_loader(...), ckpt_path="last.ckpt")',
    "the loader's state is in the checkpoint: 10 steps and the rest together equal one uninterrupted run",
)
def resumed(data: Data) -> None:
    steps = len(data.values("train", "name")) // 8
    with tempfile.TemporaryDirectory() as folder:
        whole, first, second = Names(), Names(), Names()
        trainer(folder, max_steps=2 * steps, enable_checkpointing=False).fit(whole, loader(data))
        stopped = trainer(folder, max_steps=10)
        stopped.fit(first, loader(data))
        stopped.save_checkpoint(f"{folder}/last.ckpt")
        trainer(folder, max_steps=2 * steps, enable_checkpointing=False).fit(
            second, loader(data), ckpt_path=f"{folder}/last.ckpt"
        )
    assert first.names + second.names == whole.names
    data.compare("train", (first.names + second.names)[: steps * 8], "name")


DDP = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from lightning_trainer import Data, Names, loader, trainer

if __name__ == "__main__":
    data = Data(Path(sys.argv[2]), {})
    model = Names()
    model.train_dataloader = lambda: loader(data)  # made once the processes know of each other
    run = trainer(sys.argv[3], max_epochs=1, enable_checkpointing=False, strategy="ddp", devices=2,
                  use_distributed_sampler=False)
    run.fit(model)
    Path(sys.argv[3], f"names.{run.global_rank}").write_text(json.dumps(model.names))
"""


@check(
    "Lightning ddp, 2 processes",
    "lightning",
    'Trainer(strategy="ddp", devices=2, use_distributed_sampler=False)',
    "the loader is created in `train_dataloader`, after the processes have connected",
)
def two_processes(data: Data) -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "ddp.py")
        script.write_text(DDP)
        here = str(Path(__file__).parent)
        subprocess.run([sys.executable, str(script), here, str(data.root), folder], check=True, timeout=300)
        parts = [json.loads(Path(folder, f"names.{rank}").read_text()) for rank in range(2)]
    assert len(parts[0]) == len(parts[1])
    data.compare("train", parts[0] + parts[1], "name")


if __name__ == "__main__":
    main()
