"""Price of a flat from eight numbers, with a log-cosh loss."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)


def flats(n, generator):
    x = torch.randn(n, 8, generator=generator)
    area, rooms, age, floor = x[:, 0], x[:, 1], x[:, 2], x[:, 3]
    price = 3.0 + 1.5 * area + 0.4 * rooms * area - 0.6 * age.abs() + 0.2 * torch.sin(2 * floor)
    return x, price + 0.1 * torch.randn(n, generator=generator)


def log_cosh(pred, target):
    difference = pred - target
    return (difference + F.softplus(-2.0 * difference) - math.log(2.0)).mean()


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(8, 64), nn.ReLU(), nn.Dropout(0.05), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, x):
        return self.net(x)


def main():
    generator = torch.Generator().manual_seed(0)
    train = TensorDataset(*flats(2000, generator))
    val_x, val_y = flats(600, generator)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = Regressor()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8 * len(loader))
    for epoch in range(8):
        model.train()
        total = 0.0
        for x, y in loader:
            pred = model(x)
            if FIXED:
                pred = pred.squeeze(-1)
            loss = log_cosh(pred, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            rmse = ((model(val_x).flatten() - val_y) ** 2).mean().sqrt().item()
        print(f"epoch {epoch}  train {total / len(loader):.4f}  val rmse {rmse:.4f}")
    print(f"final val rmse {rmse:.4f}  (spread of prices {val_y.std().item():.4f})")


if __name__ == "__main__":
    main()
