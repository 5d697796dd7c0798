"""A table with gaps, as pandas reads it.

Mistake: missing values are NaN and reach the network.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

table = torch.randn(480, 6)
y = (table[:, 0] + table[:, 1] > 0).long()
table[torch.rand(480, 6) < 0.002] = float("nan")
# repaired: table = torch.nan_to_num(table)
loader = DataLoader(TensorDataset(table, y), batch_size=24, shuffle=True)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(5):
    for x, target in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), target)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
