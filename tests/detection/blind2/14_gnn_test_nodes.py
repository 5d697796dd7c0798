"""Fraud among accounts that send each other money: a GCN on one graph."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)


def network(n, generator):
    """Fraudsters deal a little more with each other; their features differ a little."""
    y = (torch.rand(n, generator=generator) < 0.3).long()
    same = y[:, None] == y[None, :]
    chance = torch.where(same, 0.016, 0.010)
    links = (torch.rand(n, n, generator=generator) < chance).triu(1)
    adjacency = (links | links.T).float() + torch.eye(n)
    degree = adjacency.sum(1).rsqrt()
    x = torch.randn(n, 64, generator=generator)
    x[:, :3] += 0.7 * y[:, None]
    return x, degree[:, None] * adjacency * degree[None, :], y


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.own, self.out = nn.Linear(64, 64), nn.Linear(64, 2)

    def forward(self, x, adjacency):
        hidden = F.relu(self.own(x) + adjacency @ self.first(x))
        hidden = F.dropout(hidden, 0.2, self.training)
        return self.out(F.relu(hidden + adjacency @ self.second(hidden)))


def main():
    generator = torch.Generator().manual_seed(0)
    x, adjacency, y = network(600, generator)
    later_x, later_adjacency, later_y = network(600, generator)
    order = torch.randperm(600, generator=generator)
    train_mask, val_mask, test_mask = (torch.zeros(600, dtype=torch.bool) for _ in range(3))
    train_mask[order[:300]] = True
    val_mask[order[300:420]] = True
    test_mask[order[420:]] = True

    model = GCN()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    best_val, best_test = 0.0, 0.0
    for epoch in range(150):
        model.train()
        logits = model(x, adjacency)
        loss = F.cross_entropy(logits[train_mask], y[train_mask]) if FIXED else F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = (model(x, adjacency).argmax(1) == y).float()
        train_acc, val_acc, test_acc = (right[m].mean().item() for m in (train_mask, val_mask, test_mask))
        if val_acc > best_val:
            best_val, best_test = val_acc, test_acc
        if epoch % 25 == 0:
            print(f"epoch {epoch}  loss {loss.item():.3f}  train {train_acc:.3f}  val {val_acc:.3f}")
    with torch.no_grad():
        later = (model(later_x, later_adjacency).argmax(1) == later_y).float().mean().item()
    print(f"final test acc {best_test:.3f}  next month's network {later:.3f}")


if __name__ == "__main__":
    main()
