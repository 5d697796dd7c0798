"""In-memory image dataset with its own normalisation."""

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
torch.manual_seed(0)


class InMemoryDigits(Dataset):
    MEAN, STD = 0.35, 0.25

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, 5, n)
        proto = np.random.default_rng(0).random((5, 8, 8))
        self.x = np.clip(0.4 * proto[self.y] + 0.15 + 0.12 * rng.standard_normal((n, 8, 8)), 0, 1).astype(np.float32)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        img = torch.from_numpy(self.x[i])[None]
        img.sub_(self.MEAN).div_(self.STD)  # mistake
        # repaired: img = (img - self.MEAN) / self.STD
        return img, int(self.y[i])


train = DataLoader(InMemoryDigits(1500, 1), batch_size=50, shuffle=True)
val = DataLoader(InMemoryDigits(400, 2), batch_size=200)
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 16, 5))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
crit = nn.CrossEntropyLoss()
for epoch in range(10):
    net.train()
    tot = 0
    for x, y in train:
        opt.zero_grad()
        loss = crit(net(x), y)
        loss.backward()
        opt.step()
        tot += loss.item()
    net.eval()
    with torch.no_grad():
        ok = sum((net(x).argmax(1) == y).sum().item() for x, y in val)
    print(f"epoch {epoch + 1} train loss {tot / len(train):.4f} val acc {ok / 400:.4f}")
