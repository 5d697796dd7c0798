"""Train a small convolutional network with Lightning and the one-cycle schedule."""

import logging
import sys
import warnings

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
L.seed_everything(0)
torch.set_num_threads(1)
EPOCHS = 6
MAX_LR = 0.02


def make_images(count):
    """Noisy 12 x 12 pictures of a short line in one of eight directions."""
    labels = torch.randint(0, 8, (count,))
    images = 0.5 * torch.randn(count, 1, 12, 12)
    angles = labels * torch.pi / 8
    centers = torch.randint(4, 8, (count, 2))
    for step in range(-4, 5):
        rows = (centers[:, 0] + step * angles.sin()).round().long().clamp(0, 11)
        columns = (centers[:, 1] + step * angles.cos()).round().long().clamp(0, 11)
        images[torch.arange(count), 0, rows, columns] += 1.5
    return images, labels


class LineNet(L.LightningModule):
    def __init__(self, max_lr):
        super().__init__()
        self.save_hyperparameters()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(24 * 36, 48),
            nn.ReLU(),
            nn.Linear(48, 8),
        )

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.log("val_loss", F.cross_entropy(logits, y))
        self.log("val_acc", (logits.argmax(1) == y).float().mean())

    def on_validation_epoch_end(self):
        metrics = self.trainer.callback_metrics
        print(f"epoch {self.current_epoch}: val_loss {metrics['val_loss']:.4f} val_acc {metrics['val_acc']:.3f}")

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.max_lr, momentum=0.9, weight_decay=1e-4)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            max_lr=self.hparams.max_lr,
            total_steps=self.trainer.estimated_stepping_batches,
        )
        if FIXED:
            return [optimizer], [{"scheduler": scheduler, "interval": "step"}]
        return [optimizer], [scheduler]


def main():
    images, labels = make_images(13000)
    train = DataLoader(TensorDataset(images[:12000], labels[:12000]), batch_size=256, shuffle=True)
    val = DataLoader(TensorDataset(images[12000:], labels[12000:]), batch_size=250)
    model = LineNet(MAX_LR)
    trainer = L.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(model, train, val)
    print(f"final validation accuracy {trainer.callback_metrics['val_acc']:.3f}")


if __name__ == "__main__":
    main()
