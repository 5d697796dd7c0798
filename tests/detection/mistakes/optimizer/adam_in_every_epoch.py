"""Digits on an 8 x 8 grid, in epochs.

Mistake: the optimizer is made inside of the loop over the epochs, so that Adam begins each one without its averages.
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

shapes = torch.randn(6, 64)
digits = torch.randint(6, (960,))
loader = DataLoader(TensorDataset(shapes[digits] + 1.5 * torch.randn(960, 64), digits), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 6))
criterion = nn.CrossEntropyLoss()
# repaired: optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(6):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # mistake
    total = 0.0
    for pixels, label in loader:
        optimizer.zero_grad()
        loss = criterion(model(pixels), label)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, total / len(loader))
