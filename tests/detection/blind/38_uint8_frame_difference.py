"""Motion direction from two grey frames (uint8 camera images)."""

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
torch.manual_seed(0)


class Frames(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, 2, n)
        base = rng.normal(120, 4, (n, 12, 12))
        gain = np.where(self.y == 1, 2.0, -2.0)[:, None, None] * (rng.random((n, 12, 12)) < 0.25)
        self.a = base.clip(0, 255).astype(np.uint8)
        self.b = (base + gain + rng.normal(0, 1.0, base.shape)).clip(0, 255).astype(np.uint8)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        diff = self.b[i] - self.a[i]  # mistake
        # repaired: diff = self.b[i].astype(np.float32) - self.a[i].astype(np.float32)
        x = torch.from_numpy(diff.astype(np.float32) / 255.0)[None]
        return x, int(self.y[i])


train = DataLoader(Frames(2000, 1), batch_size=40, shuffle=True)
val = DataLoader(Frames(500, 2), batch_size=250)
net = nn.Sequential(
    nn.BatchNorm2d(1), nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8 * 36, 2)
)
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(8):
    net.train()
    tot = 0
    for x, y in train:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item()
    net.eval()
    with torch.no_grad():
        ok = sum((net(x).argmax(1) == y).sum().item() for x, y in val)
    print(f"epoch {epoch} loss {tot / len(train):.4f} val acc {ok / 500:.3f}")
