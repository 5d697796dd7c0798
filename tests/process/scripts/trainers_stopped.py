"""Train with a trainer whose loss becomes NaN, and go on after it: trainers_stopped.py {transformers|lightning}.

With a further word ``called``, Leadline's callback takes part, and begins to watch if nothing else does.
"""

from __future__ import annotations

import os
import sys

import torch
from torch import nn

IS_CALLED = sys.argv[2:] == ["called"]
STEPS = 20_000 if IS_CALLED else 400  # then the judge starts beside the training
OPTIONS = {"out": "runs", "on": ["exploding_tensor=stop_training:grace=0"]}
X = torch.randn(64, 8, generator=torch.Generator().manual_seed(0))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        scale = float("nan") if int(os.environ["SEEN"]) > 20 else 1.0
        os.environ["SEEN"] = str(int(os.environ["SEEN"]) + 1)
        return {"loss": nn.functional.mse_loss(self.layer(x), x.sum(1, keepdim=True)) * scale}


def transformers() -> int:
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        "out", max_steps=STEPS, per_device_train_batch_size=8, report_to=[], save_strategy="no", use_cpu=True
    )
    callbacks = []
    if IS_CALLED:
        from leadline.integrations.transformers import LeadlineCallback

        callbacks = [LeadlineCallback(**OPTIONS)]
    trainer = Trainer(Model(), arguments, train_dataset=[{"x": row} for row in X], callbacks=callbacks)
    trainer.train()
    trainer.save_state()
    return int(trainer.state.global_step)


def lightning() -> int:
    import lightning as L

    class Module(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()

        def training_step(self, batch: torch.Tensor) -> torch.Tensor:
            return self.model(batch)["loss"]

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.01)

    callbacks = []
    if IS_CALLED:
        from leadline.integrations.lightning import LeadlineCallback

        callbacks = [LeadlineCallback(**OPTIONS)]
    trainer = L.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=callbacks,
    )
    trainer.fit(Module(), torch.utils.data.DataLoader(X, 8))
    return int(trainer.global_step)


if __name__ == "__main__":
    os.environ["SEEN"] = "0"
    print(f"ended at { ({'transformers': transformers, 'lightning': lightning}[sys.argv[1]]()) }", flush=True)
