"""A backbone trained on one task, then frozen with its batch normalization in evaluation mode, under a new head."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
backbone = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.Conv2d(8, 16, 3, stride=2, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(2),
    nn.Flatten(),
)
patterns, others = torch.randn(4, 1, 10, 10), torch.randn(3, 1, 10, 10)


def batch(kinds):
    y = torch.randint(len(kinds), (16,))
    return kinds[y] + 0.7 * torch.randn(16, 1, 10, 10), y


criterion = nn.CrossEntropyLoss()
pretrained = nn.Sequential(backbone, nn.Linear(64, 4))
optimizer = torch.optim.SGD(pretrained.parameters(), lr=0.05, momentum=0.9)
for step in range(steps // 2):
    x, y = batch(patterns)
    optimizer.zero_grad()
    criterion(pretrained(x), y).backward()
    optimizer.step()

for parameter in backbone.parameters():
    parameter.requires_grad = False
head = nn.Linear(64, 3)
model = nn.Sequential(backbone, head)
optimizer = torch.optim.SGD(head.parameters(), lr=0.05, momentum=0.9)
losses = []
for step in range(steps):
    model.train()
    backbone.eval()
    x, y = batch(others)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 25 == 24:
        model.eval()
        with torch.no_grad():
            x, y = batch(others)
            print(step, criterion(model(x), y).item())
print(f"loss fell from {losses[0]:.4g} to {sum(losses[-10:]) / 10:.4g}")
