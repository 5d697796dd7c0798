"""Credit risk from a table.

Mistake: age in years beside income in dollars and a rate of interest as a fraction.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

n = 800
age = 20 + 50 * torch.rand(n)
income = 20_000 + 80_000 * torch.rand(n)
interest = 0.01 + 0.05 * torch.rand(n)
defaulted = (interest * 2_000 - income / 1_000 + torch.randn(n) * 10 > 10).float().unsqueeze(1)
table = torch.stack([age, income, interest], dim=1)
# repaired: table = (table - table.mean(0)) / table.std(0)
model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
loss_fn = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(5):
    for x, y in DataLoader(TensorDataset(table, defaulted), batch_size=40, shuffle=True):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
