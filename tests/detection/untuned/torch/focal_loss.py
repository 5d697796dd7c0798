"""One positive in ten, the focal loss as a module, and validation with it after each epoch."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=0.75):
        super().__init__()
        self.gamma, self.alpha = gamma, alpha

    def forward(self, logits, targets):
        bce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        p_t = torch.exp(-bce)
        alpha_t = self.alpha * targets + (1 - self.alpha) * (1 - targets)
        return (alpha_t * (1 - p_t) ** self.gamma * bce).mean()


def data(n):
    y = (torch.rand(n) < 0.1).float()
    return torch.randn(n, 10) + y[:, None] * torch.tensor([2.0, -1.5, 1.0] + [0.0] * 7), y


train = DataLoader(TensorDataset(*data(1600)), batch_size=32, shuffle=True)
valid = DataLoader(TensorDataset(*data(400)), batch_size=100)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
criterion = FocalLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(max(2, steps // 50)):
    model.train()
    total = 0.0
    for x, y in train:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() / len(train)
    model.eval()
    with torch.no_grad():
        val = sum(criterion(model(x), y).item() for x, y in valid) / len(valid)
    if epoch == 0:
        first = total
    print(f"epoch {epoch}: {total:.4f} {val:.4f}")
print(f"loss fell from {first:.4g} to {total:.4g}")
