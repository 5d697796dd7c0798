"""What trainers say of the steps before each one of an optimizer that does not count: Lightning's, resumed once, and
that of Transformers."""

import torch
from lightning import pytorch as lightning
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.data import DataLoader, TensorDataset
from transformers import Trainer, TrainingArguments

from leadline.frameworks.torch.capture.step_count import steps_before

QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return self.layer(batch[0]).pow(2).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (self.layer(x) - labels).pow(2).mean()}


def seen_by_trainers(folder: str) -> list[int | None]:
    """Train twelve steps with Lightning and Transformers; return what each step was told of those before it."""
    seen: list[int | None] = []
    hook = register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: seen.append(steps_before(optimizer)))
    data = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=8)
    for epochs, checkpoint in ((1, None), (2, f"{folder}/last.ckpt")):
        trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", **QUIET)
        trainer.fit(Module(), data, ckpt_path=checkpoint)
        trainer.save_checkpoint(f"{folder}/last.ckpt")
    examples = [{"x": torch.randn(4), "labels": torch.zeros(1)} for _ in range(16)]
    arguments = TrainingArguments(folder, max_steps=4, report_to=[], optim="sgd", use_cpu=True, disable_tqdm=True)
    Trainer(Network(), arguments, train_dataset=examples).train()
    hook.remove()
    return seen
