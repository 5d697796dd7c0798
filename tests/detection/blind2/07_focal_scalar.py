"""Fraud among card payments (1 in 25), with a focal loss."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)


def payments(n, generator):
    x = torch.randn(n, 12, generator=generator)
    y = (torch.rand(n, generator=generator) < 0.04).long()
    x[y == 1, :4] += torch.tensor([1.0, -1.0, 0.8, 0.8])
    x[y == 1, 4:6] *= 2.0
    return x, y


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, weight=None):
        super().__init__()
        self.gamma, self.weight = gamma, weight

    def forward(self, logits, target):
        ce = F.cross_entropy(logits, target, weight=self.weight, reduction="none" if FIXED else "mean")
        pt = torch.exp(-ce)
        return ((1 - pt) ** self.gamma * ce).mean()


def average_precision(score, y):
    hits = y[score.argsort(descending=True)].float()
    precision = hits.cumsum(0) / torch.arange(1, len(y) + 1)
    return (precision * hits).sum().item() / hits.sum().item()


def main():
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(*payments(6000, generator)), batch_size=128, shuffle=True)
    val_x, val_y = payments(4000, generator)
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = FocalLoss()
    for epoch in range(6):
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            logits = model(val_x)
            found = (logits.argmax(1)[val_y == 1] == 1).float().mean().item()
            ap = average_precision(logits[:, 1] - logits[:, 0], val_y)
        print(f"epoch {epoch}  train {total / len(loader):.5f}  recall {found:.3f}  AP {ap:.3f}")
    print(f"final recall {found:.3f}  AP {ap:.3f}")


if __name__ == "__main__":
    main()
