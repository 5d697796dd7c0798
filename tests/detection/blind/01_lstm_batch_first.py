"""Activity recognition from accelerometer windows with an LSTM."""

import argparse

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_windows(n, T=24, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    t = np.arange(T)
    x = np.zeros((n, T, 3), dtype=np.float32)
    for i in range(n):
        f = (0.08, 0.16, 0.28)[y[i]]
        ph = rng.uniform(0, 2 * np.pi, 3)
        for c in range(3):
            x[i, :, c] = np.sin(2 * np.pi * f * t + ph[c]) + 0.5 * rng.standard_normal(T)
    return torch.from_numpy(x), torch.from_numpy(y)


class ActivityNet(nn.Module):
    def __init__(self, n_feat=3, hidden=48, n_classes=3):
        super().__init__()
        self.lstm = nn.LSTM(n_feat, hidden, num_layers=1)  # mistake
        # repaired: self.lstm = nn.LSTM(n_feat, hidden, num_layers=1, batch_first=True)
        self.fc = nn.Linear(hidden, n_classes)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.fc(out[:, -1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--lr", type=float, default=5e-3)
    args = p.parse_args()
    torch.manual_seed(0)
    train = DataLoader(TensorDataset(*make_windows(1920, seed=1)), batch_size=args.batch_size, shuffle=True)
    val = DataLoader(TensorDataset(*make_windows(512, seed=2)), batch_size=args.batch_size)
    model = ActivityNet()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    crit = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        model.train()
        tot = 0.0
        for x, y in train:
            opt.zero_grad()
            loss = crit(model(x), y)
            loss.backward()
            opt.step()
            tot += loss.item()
        model.eval()
        hit = n = 0
        with torch.no_grad():
            for x, y in val:
                hit += (model(x).argmax(1) == y).sum().item()
                n += len(y)
        print(f"epoch {epoch}: train loss {tot / len(train):.4f}  val acc {hit / n:.3f}")


if __name__ == "__main__":
    main()
