"""Predict house prices from tables with categories, by embeddings."""

import sys

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
CITIES = ["Aachen", "Bonn", "Celle", "Dortmund", "Essen", "Fulda", "Gera", "Hagen", "Ilmenau", "Jena"]
KINDS = ["flat", "house", "loft", "villa"]


def houses(n, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "city": rng.choice(CITIES, n),
            "kind": rng.choice(KINDS, n),
            "area": rng.normal(90, 25, n).clip(20),
            "age": rng.integers(0, 80, n),
        }
    )
    base = dict(zip(CITIES, np.random.default_rng(5).normal(0, 1, len(CITIES))))
    extra = dict(zip(KINDS, [0.0, 0.7, -0.5, 1.5]))
    price = frame.city.map(base) + frame.kind.map(extra) + 0.02 * (frame.area - 90) - 0.01 * (frame.age - 40)
    frame["price"] = price + rng.normal(0, 0.3, n)
    return frame


def encode(frame, categories=None):
    """The categories as numbers, the rest standardized by fixed figures."""
    codes = []
    for column in ("city", "kind"):
        if categories is None:
            code, _ = pd.factorize(frame[column])
        else:
            code = pd.Categorical(frame[column], categories=categories[column]).codes
        codes.append(np.asarray(code, dtype=np.int64))
    numeric = np.stack([(frame.area - 90) / 25, (frame.age - 40) / 23], 1).astype(np.float32)
    target = frame.price.to_numpy(np.float32)
    return torch.from_numpy(np.stack(codes, 1)), torch.from_numpy(numeric), torch.from_numpy(target)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.city, self.kind = nn.Embedding(len(CITIES), 6), nn.Embedding(len(KINDS), 3)
        self.mlp = nn.Sequential(nn.Linear(11, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, codes, numeric):
        x = torch.cat([self.city(codes[:, 0]), self.kind(codes[:, 1]), numeric], 1)
        return self.mlp(x)[:, 0]


def main():
    train, test = houses(1500, 0), houses(500, 1)
    categories = {"city": CITIES, "kind": KINDS} if FIXED else None
    loader = DataLoader(TensorDataset(*encode(train, categories)), batch_size=50, shuffle=True)
    codes, numeric, target = encode(test, categories)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(15):
        model.train()
        total = 0.0
        for c, x, y in loader:
            loss = F.mse_loss(model(c, x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            test_loss = F.mse_loss(model(codes, numeric), target).item()
        if epoch % 3 == 2:
            print(f"epoch {epoch}  train mse {total / len(loader):.3f}  test mse {test_loss:.3f}")


if __name__ == "__main__":
    main()
