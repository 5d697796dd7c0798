"""Fraud-like imbalanced classification with a weighted loss."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)


def transactions(n):
    y = (torch.rand(n) < 0.08).long()
    x = torch.randn(n, 14)
    x[:, 0] += 1.4 * y
    x[:, 1] -= 1.1 * y
    return x, y


xt, yt = transactions(6000)
xv, yv = transactions(2000)
freq = torch.bincount(yt, minlength=2).float() / len(yt)
weights = torch.stack([freq[0], freq[1]]) * 2  # mistake
# repaired: weights = 1.0 / (freq * 2)
print("class frequencies", freq.tolist(), "loss weights", weights.tolist())
crit = nn.CrossEntropyLoss(weight=weights)
model = nn.Sequential(nn.Linear(14, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(xt, yt), batch_size=128, shuffle=True)
for epoch in range(8):
    model.train()
    tot = 0
    for x, y in loader:
        opt.zero_grad()
        loss = crit(model(x), y)
        loss.backward()
        opt.step()
        tot += loss.item()
    model.eval()
    with torch.no_grad():
        p = model(xv).argmax(1)
    rec = ((p == 1) & (yv == 1)).sum().item() / (yv == 1).sum().item()
    acc = (p == yv).float().mean().item()
    bal = 0.5 * (rec + ((p == 0) & (yv == 0)).sum().item() / (yv == 0).sum().item())
    print(f"epoch {epoch}: loss {tot / len(loader):.4f} acc {acc:.4f} fraud recall {rec:.3f} balanced acc {bal:.3f}")
