"""A third of the remaining weights is set to 0 three times, with training in between."""

import sys

import torch
from torch import nn
from torch.nn.utils import prune

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
model = nn.Sequential(nn.Linear(20, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 4))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
centres = torch.randn(4, 20) * 0.8
history = []
for round_ in range(4):
    if round_:
        for layer in model[::2]:
            prune.l1_unstructured(layer, "weight", amount=0.33)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(max(20, steps // 4)):
        y = torch.randint(4, (32,))
        x = centres[y] + torch.randn(32, 20)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    print(round_, loss.item())
for layer in model[::2]:
    prune.remove(layer, "weight")
print("zeros", sum((layer.weight == 0).sum().item() for layer in model[::2]))
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
