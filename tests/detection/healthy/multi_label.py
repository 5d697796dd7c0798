"""Ten labels of which several may be true, most of them rare; weights for the positive ones."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

steps = int(sys.argv[1])
x = torch.randn(960, 16)
y = (x @ torch.randn(16, 10) / 4 > torch.linspace(0.0, 1.3, 10)).float()
loader = DataLoader(TensorDataset(x, y), batch_size=48, shuffle=True)
model = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
criterion = nn.BCEWithLogitsLoss(pos_weight=(1 - y.mean(0)) / y.mean(0))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
step = 0
while step < steps:
    for inputs, labels in loader:
        if step == steps:
            break
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(step, loss.item())
        step += 1
