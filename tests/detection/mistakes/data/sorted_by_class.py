"""A classifier of a data set that lies on disk class by class.

Mistake: the loader does not shuffle, so that each batch holds a single class.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

centres = torch.randn(5, 12)
labels = torch.arange(5).repeat_interleave(160)
data = TensorDataset(centres[labels] + torch.randn(800, 12), labels)
loader = DataLoader(data, batch_size=20)  # mistake
# repaired: loader = DataLoader(data, batch_size=20, shuffle=True)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for epoch in range(5):
    for x, y in loader:
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
