"""Stochastic weight averaging in the second half, then update_bn and an evaluation of the average."""

import sys

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
x = torch.randn(640, 12)
y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).long()
loader = DataLoader(TensorDataset(x[:512], y[:512]), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(12, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
swa_model = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
swa_scheduler = SWALR(optimizer, swa_lr=0.02, anneal_epochs=2)
epochs = max(4, steps // 16)
for epoch in range(epochs):
    total = 0.0
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() / len(loader)
    if epoch == 0:
        first = total
    if epoch >= epochs // 2:
        swa_model.update_parameters(model)
        swa_scheduler.step()
    else:
        scheduler.step()
    print(epoch, total)
update_bn(loader, swa_model)
swa_model.eval()
with torch.no_grad():
    print("accuracy of the average", (swa_model(x[512:]).argmax(1) == y[512:]).float().mean().item())
print(f"loss fell from {first:.4g} to {total:.4g}")
