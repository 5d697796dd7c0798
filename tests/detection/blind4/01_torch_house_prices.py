"""Predict house prices from a handful of features with a small network."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
torch.set_num_threads(1)


def make_houses(count):
    area = torch.rand(count) * 180 + 40
    rooms = torch.randint(1, 7, (count,)).float()
    age = torch.rand(count) * 80
    distance = torch.rand(count) * 20
    price = 3.0 * area + 15 * rooms - 1.2 * age - 12 * distance + 0.04 * area * (20 - distance)
    price = price + 10 * torch.randn(count)
    return torch.stack([area, rooms, age, distance], 1), price


class PriceNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 64),
            nn.ReLU(),
            nn.Linear(64, 64),
            nn.ReLU(),
            nn.Linear(64, 1),
        )

    def forward(self, x):
        return self.layers(x)


def rmse(prediction, target):
    """Root mean squared error, which is what the competition is scored with."""
    return torch.sqrt(torch.mean((prediction - target) ** 2))


def main():
    features, prices = make_houses(6000)
    mean, std = features[:5000].mean(0), features[:5000].std(0)
    features = (features - mean) / std
    price_mean, price_std = prices[:5000].mean(), prices[:5000].std()
    targets = (prices - price_mean) / price_std
    if FIXED:
        targets = targets.unsqueeze(1)

    train_loader = DataLoader(TensorDataset(features[:5000], targets[:5000]), batch_size=50, shuffle=True)
    test_x = features[5000:]

    model = PriceNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(70):
        model.train()
        total = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = rmse(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: train rmse {total / len(train_loader):.4f}")

    model.eval()
    with torch.no_grad():
        predicted = model(test_x).flatten() * price_std + price_mean
    error = (predicted - prices[5000:]).abs().mean()
    spread = (prices[5000:] - prices[5000:].mean()).abs().mean()
    print(f"the mean price alone is off by {spread:.1f}")
    print(f"test mean absolute error {error:.1f}")


if __name__ == "__main__":
    main()
