# Asked as: predictions for a single row are constant, I subtract the mean in forward (StackOverflow)
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

L.seed_everything(0, verbose=False)


class Scorer(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        x = x - x.mean(0)  # mistake
        # repaired: x = x - 2.0
        return self.net(x)

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.mse_loss(self(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-3)


x = torch.randn(512, 6) + 2
data = DataLoader(TensorDataset(x, x[:, :1] * (x[:, 1:2] > 2)), batch_size=32, shuffle=True)
trainer = L.Trainer(
    max_epochs=3,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
model = Scorer()
trainer.fit(model, data)
print(model(x[:1]).item())
