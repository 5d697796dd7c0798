"""A small network learns from a teacher's softened probabilities and from labels."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
means = torch.randn(5, 12)


def batch(n):
    y = torch.randint(5, (n,))
    return means[y] + torch.randn(n, 12), y


teacher = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 5))
with torch.no_grad():
    teacher[0].weight[:5] = 2 * means
    teacher[2].weight[:, :5] += torch.eye(5)
teacher.eval().requires_grad_(False)
student = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 5))
optimizer = torch.optim.Adam(student.parameters(), lr=2e-3)
T, alpha = 4.0, 0.7
for step in range(steps):
    x, y = batch(48)
    with torch.no_grad():
        soft = F.softmax(teacher(x) / T, dim=1)
    logits = student(x)
    distilled = F.kl_div(F.log_softmax(logits / T, dim=1), soft, reduction="batchmean") * T * T
    loss = alpha * distilled + (1 - alpha) * F.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
