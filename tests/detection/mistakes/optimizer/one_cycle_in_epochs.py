"""A classifier with OneCycleLR.

Mistake: the cycle is as long as the training has batches, and the scheduler is stepped once in an epoch.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

centers = torch.randn(4, 20)
kinds = torch.randint(4, (1200,))
loader = DataLoader(TensorDataset(centers[kinds] + torch.randn(1200, 20), kinds), batch_size=30, shuffle=True)
epochs = 8
model = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, epochs=epochs, steps_per_epoch=len(loader))
for epoch in range(epochs):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # repaired: scheduler.step()
    scheduler.step()  # mistake
    print(epoch, loss.item())
