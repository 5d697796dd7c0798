"""Tables of 12 columns with three classes, classified by a network whose batches are normalized.

Mistake: the averages are switched off after the layers were made, so that evaluation uses those of the start.
"""

import torch
from torch import nn

model = nn.Sequential(
    nn.Linear(12, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 3)
)
for module in model.modules():
    if isinstance(module, nn.BatchNorm1d):
        module.track_running_stats = False  # mistake
        # repaired: module.momentum = 0.05
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()
centers = 2 * torch.randn(3, 12)
labels = torch.randint(3, (256,))
validation = centers[labels] + torch.randn(256, 12)
for epoch in range(6):
    model.train()
    for _ in range(40):
        y = torch.randint(3, (64,))
        optimizer.zero_grad()
        loss = criterion(model(centers[y] + torch.randn(64, 12)), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(epoch, criterion(model(validation), labels).item())
