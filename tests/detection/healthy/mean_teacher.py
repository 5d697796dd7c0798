"""Semi-supervised: an average of the weights labels what has no label; consistency between two sets of noise."""

import copy
import sys

import torch
from torch import nn
from torch.nn import functional as F

steps = int(sys.argv[1])
student = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 3))
teacher = copy.deepcopy(student)
for parameter in teacher.parameters():
    parameter.requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, nesterov=True)
centres = torch.randn(3, 8)
for step in range(steps):
    y = torch.randint(3, (48,))
    x = centres[y] + torch.randn(48, 8)
    logits = student(x + 0.1 * torch.randn(48, 8))
    with torch.no_grad():
        target = F.softmax(teacher(x + 0.1 * torch.randn(48, 8)), dim=1)
    consistency = F.mse_loss(F.softmax(logits, dim=1), target)
    loss = F.cross_entropy(logits[:12], y[:12]) + min(1.0, step / 100) * consistency
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mine, theirs in zip(teacher.parameters(), student.parameters()):
            mine.mul_(0.99).add_(theirs, alpha=0.01)
    if step % 50 == 0:
        print(step, loss.item())
