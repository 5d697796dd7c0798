"""Prices of hundreds of thousands: the last layer knows mean and spread, the error is reported in the currency."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
area, rooms, age = 50 + 150 * torch.rand(900), torch.randint(1, 7, (900,)).float(), 80 * torch.rand(900)
price = 2500 * area + 15000 * rooms - 900 * age + 40000 * (area > 150) + 8000 * torch.randn(900)
x = torch.stack([area, rooms, age], 1)
x = (x - x.mean(0)) / x.std(0)
mean, std = price[:700].mean(), price[:700].std()
train = DataLoader(TensorDataset(x[:700], price[:700]), batch_size=35, shuffle=True)
model = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
criterion = nn.HuberLoss()
first = None
for epoch in range(max(3, steps // 20)):
    model.train()
    for xb, yb in train:
        optimizer.zero_grad()
        loss = criterion(model(xb), (yb - mean) / std)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        predicted = model(x[700:]) * std + mean
        error = (predicted - price[700:]).abs().mean().item()
    first = first or error
    scheduler.step(error)
    print(f"epoch {epoch}: mean absolute error {error:,.0f}")
print(f"error fell from {first:.4g} to {error:.4g}")
