"""A classifier whose learning rate follows a cosine over the epochs.

Mistake: T_max is a number of epochs, and the scheduler is stepped after each batch: the rate goes up and down again.
"""

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR

EPOCHS = 8
features = torch.randn(1280, 10)
labels = (features[:, 0] * features[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
scheduler = CosineAnnealingLR(optimizer, T_max=EPOCHS)
for epoch in range(EPOCHS):
    for rows in torch.randperm(1280).split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features[rows]), labels[rows])
        loss.backward()
        optimizer.step()
        scheduler.step()  # mistake
    # repaired: scheduler.step()
    print(epoch, loss.item(), scheduler.get_last_lr())
