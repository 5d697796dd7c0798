"""A regression on the readings of sensors, whose units differ by orders of magnitude.

Mistake: the training readings are standardized, those of the validation stay in raw units.
"""

import torch
from torch import nn

scales = 10.0 ** torch.linspace(0, 3, 8)
raw = (torch.randn(900, 8) + 4.0) * scales
target = torch.sin(raw[:, :1] / scales[0]) + raw[:, 1:2] / scales[1] - 4.0
mean, std = raw[:700].mean(0), raw[:700].std(0)
train_x = (raw[:700] - mean) / std
valid_x = raw[700:]  # mistake
# repaired: valid_x = (raw[700:] - mean) / std
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.MSELoss()
for epoch in range(8):
    model.train()
    for index in torch.randperm(700).split(35):
        optimizer.zero_grad()
        loss = criterion(model(train_x[index]), target[index])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [criterion(model(x), y).item() for x, y in zip(valid_x.split(50), target[700:].split(50))]
    print(epoch, loss.item(), sum(losses) / len(losses))
