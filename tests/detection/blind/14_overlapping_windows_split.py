"""Forecast direction from sliding windows of a series (MLP)."""

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
rng = np.random.default_rng(0)
series = np.cumsum(rng.standard_normal(1100)).astype(np.float32)
L, H = 20, 20
X = np.stack([series[i : i + L] for i in range(len(series) - L - H)])
Y = np.array([series[i + L + H - 1] - series[i + L - 1] for i in range(len(series) - L - H)], dtype=np.float32)
split = int(0.8 * len(X))
mu, sd = series[:split].mean(), series[:split].std()
ds = TensorDataset(torch.from_numpy((X - mu) / sd), torch.from_numpy(Y / Y[:split].std()))
perm = rng.permutation(len(ds))  # mistake
train_ds, val_ds = Subset(ds, perm[:split]), Subset(ds, perm[split:])  # mistake
# repaired: train_ds, val_ds = Subset(ds, range(split - L - H)), Subset(ds, range(split, len(ds)))
train = DataLoader(train_ds, batch_size=32, shuffle=True)
val = DataLoader(val_ds, batch_size=256)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(L, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


model = Forecaster()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(22):
    tr = []
    for x, y in train:
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tr.append(loss.item())
    with torch.no_grad():
        p, t = zip(*[(model(x), y) for x, y in val])
        p, t = torch.cat(p), torch.cat(t)
        vl = nn.functional.mse_loss(p, t).item()
        da = ((p > 0) == (t > 0)).float().mean().item()
    print(f"epoch {epoch + 1:2d} train mse {np.mean(tr):.4f} val mse {vl:.4f} directional acc {da:.3f}")
