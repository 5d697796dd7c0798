# Asked as: Lightning: train and val accuracy differ although the data are the same, track_running_stats (forum)
import logging

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
L.seed_everything(0, verbose=False)


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(10, 32),
            nn.BatchNorm1d(32, momentum=0.999),  # mistake
            # repaired: nn.BatchNorm1d(32, momentum=0.1),
            nn.ReLU(),
            nn.Linear(32, 2),
        )

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)

    def validation_step(self, batch, _):
        x, y = batch
        self.log("accuracy", (self(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-3)


x = torch.randn(256, 10) * torch.linspace(0.5, 8, 256)[torch.randperm(256), None]
data = TensorDataset(x, (x[:, 0] > x[:, 1]).long())
trainer = L.Trainer(
    max_epochs=3,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Net(), DataLoader(data, 8, shuffle=True), DataLoader(data, 64))
print({name: value.item() for name, value in trainer.callback_metrics.items()})
