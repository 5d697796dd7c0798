"""A classifier with a learning rate that falls tenfold after each epoch.

Mistake: the scheduler steps after each batch, so that the rate is nothing after ten batches.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

means = torch.randn(4, 16)
labels = torch.randint(4, (960,))
loader = DataLoader(TensorDataset(means[labels] + torch.randn(960, 16), labels), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
for epoch in range(4):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()  # mistake
    # repaired: scheduler.step()
    print(epoch, loss.item(), scheduler.get_last_lr())
