"""Energy use from weather and time.

Mistake: the time is in seconds since 1970, some 1.7e9.
"""

import torch
import torch.nn as nn

hours = torch.arange(720.0)
temperature = torch.sin(hours / 24 * 6.2832) + 0.2 * torch.randn(720)
time = 1_700_000_000 + 3600 * hours  # mistake
# repaired: time = (hours - 360) / 208
X = torch.stack([time, temperature], dim=1)
energy = (0.7 * temperature + 0.3 * torch.cos(hours / 24 * 6.2832)).unsqueeze(1)

model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.MSELoss()
for epoch in range(8):
    for rows in torch.randperm(720).split(60):
        loss = criterion(model(X[rows]), energy[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
