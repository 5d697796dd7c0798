# Asked as: timestamps scaled to 0..1 as a feature, the model ignores the time of day (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)
moments = 1_700_000_000 + torch.randint(0, 24 * 3600, (512,), dtype=torch.int64)
hour = (moments % 86400).double() / 3600
demand = torch.sin(hour * 3.14159 / 12).float()[:, None] + 0.1 * torch.randn(512, 1)
weather = torch.randn(512, 2)

time = moments.double() / 2**31  # mistake
# repaired: time = hour / 12 - 1
features = torch.cat([time.float()[:, None], weather], dim=1)
model = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(4):
    for part in torch.randperm(512).split(32):
        loss = nn.functional.mse_loss(model(features[part]), demand[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
