"""Adam for the first two thirds, then SGD with momentum at a small rate, on the same network."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
model = nn.Sequential(
    nn.Conv2d(3, 12, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(12, 24, 3),
    nn.ReLU(),
    nn.Flatten(),
    nn.LazyLinear(5),
)
patterns = torch.randn(5, 3, 8, 8)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
model(patterns)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
history = []
for step in range(steps):
    if step == steps * 2 // 3:
        optimizer = torch.optim.SGD(model.parameters(), lr=5e-3, momentum=0.9, nesterov=True)
    labels = torch.randint(5, (16,))
    images = patterns[labels] + torch.randn(16, 3, 8, 8)
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
