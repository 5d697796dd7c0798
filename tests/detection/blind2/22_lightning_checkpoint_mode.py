"""Lightning: the best checkpoint by validation loss is loaded for the test."""

import sys
import tempfile
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
warnings.filterwarnings("ignore", ".*does not have many workers.*")
L.seed_everything(0)


def sensors(n, generator):
    """Three kinds of vibrations, of 32 samples each."""
    y = torch.randint(0, 3, (n,), generator=generator)
    time = torch.arange(32) / 32
    frequency = torch.tensor([3.0, 4.0, 5.5])[y] + 0.2 * torch.randn(n, generator=generator)
    phase = torch.rand(n, generator=generator) * 6.28
    signal = torch.sin(6.28 * frequency[:, None] * time + phase[:, None])
    return signal + 0.8 * torch.randn(n, 32, generator=generator), y


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Unflatten(1, (1, 32)),
            nn.Conv1d(1, 16, 9, padding=4),
            nn.ReLU(),
            nn.Conv1d(16, 16, 5, padding=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * 32, 3),
        )

    def step(self, batch, stage):
        x, y = batch
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        self.log(f"{stage}_loss", loss, on_epoch=True, on_step=False)
        self.log(f"{stage}_acc", (logits.argmax(1) == y).float().mean(), on_epoch=True, on_step=False)
        return loss

    def training_step(self, batch, index):
        return self.step(batch, "train")

    def validation_step(self, batch, index):
        self.step(batch, "val")

    def test_step(self, batch, index):
        self.step(batch, "test")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def main():
    generator = torch.Generator().manual_seed(0)
    train = DataLoader(TensorDataset(*sensors(800, generator)), batch_size=32, shuffle=True)
    val = DataLoader(TensorDataset(*sensors(400, generator)), batch_size=100)
    test = DataLoader(TensorDataset(*sensors(800, generator)), batch_size=100)
    folder = tempfile.mkdtemp()
    checkpoint = ModelCheckpoint(dirpath=folder, monitor="val_loss", mode="min" if FIXED else "max", save_top_k=1)
    trainer = L.Trainer(
        max_epochs=8,
        accelerator="cpu",
        logger=False,
        callbacks=[checkpoint],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Model(), train, val)
    print("last epoch:", {k: round(v.item(), 3) for k, v in trainer.callback_metrics.items()})
    model = Model.load_from_checkpoint(checkpoint.best_model_path)
    result = trainer.test(model, test, verbose=False)[0]
    print(f"best model: {checkpoint.best_model_score:.3f} in {checkpoint.best_model_path.rsplit('/', 1)[1]}")
    print(f"final test loss {result['test_loss']:.3f}  acc {result['test_acc']:.3f}")


if __name__ == "__main__":
    main()
