"""A rare kind of failure: rows of the rare class are repeated until both classes are equally frequent.

Mistake: they are repeated before the split, so that copies of a row are in both sets.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(900, 10)
y = (x[:, 0] + 0.5 * torch.randn(900) > 1.3).long()


def oversampled(x, y):
    rare, others = x[y == 1], x[y == 0]
    rare = rare[torch.arange(len(others)) % len(rare)]
    labels = torch.cat([torch.zeros(len(others)), torch.ones(len(rare))]).long()
    return torch.cat([others, rare]), labels


x, y = oversampled(x, y)  # mistake
order = torch.randperm(len(x))
train_x, train_y, valid_x, valid_y = x[order[:640]], y[order[:640]], x[order[640:]], y[order[640:]]
# repaired: train_x, train_y = oversampled(train_x, train_y)
train = DataLoader(TensorDataset(train_x, train_y), batch_size=32, shuffle=True)
valid = DataLoader(TensorDataset(valid_x, valid_y), batch_size=64)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(6):
    model.train()
    for inputs, labels in train:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [criterion(model(inputs), labels).item() for inputs, labels in valid]
    print(epoch, loss.item(), sum(losses) / len(losses))
