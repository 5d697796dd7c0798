"""CIFAR-like script: StepLR with step_size in epochs."""

import argparse

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=9)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--step-size", type=int, default=3, help="epochs between decays")
    p.add_argument("--gamma", type=float, default=0.5)
    a = p.parse_args()
    torch.manual_seed(0)
    w = torch.randn(32, 10)
    x = torch.randn(4000, 32)
    y = (x @ w + torch.tanh(x[:, :10] * 3) * 4).argmax(1)
    train = DataLoader(TensorDataset(x[:3200], y[:3200]), batch_size=64, shuffle=True)
    xv, yv = x[3200:], y[3200:]
    model = nn.Sequential(nn.Linear(32, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 10))
    opt = torch.optim.SGD(model.parameters(), lr=a.lr, momentum=0.9, weight_decay=5e-4)
    scheduler = StepLR(opt, step_size=a.step_size, gamma=a.gamma)
    for epoch in range(a.epochs):
        model.train()
        tot = 0.0
        for xb, yb in train:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(xb), yb)
            loss.backward()
            opt.step()
            scheduler.step()  # mistake
            tot += loss.item()
        # repaired: scheduler.step()
        model.eval()
        with torch.no_grad():
            acc = (model(xv).argmax(1) == yv).float().mean().item()
        print(f"epoch {epoch + 1} lr {opt.param_groups[0]['lr']:.2e} loss {tot / len(train):.4f} val acc {acc:.4f}")


if __name__ == "__main__":
    main()
