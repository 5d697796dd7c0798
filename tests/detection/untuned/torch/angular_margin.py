"""Metric learning with an additive angular margin and a scale of 16: a loss far above that of guessing at the start."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class ArcMargin(nn.Module):
    def __init__(self, width, classes, s=16.0, m=0.3):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, width))
        nn.init.xavier_uniform_(self.weight)
        self.s, self.m = s, m

    def forward(self, x, label):
        cosine = F.linear(F.normalize(x), F.normalize(self.weight)).clamp(-1 + 1e-6, 1 - 1e-6)
        sine = (1 - cosine.pow(2)).sqrt()
        phi = cosine * math.cos(self.m) - sine * math.sin(self.m)
        one_hot = F.one_hot(label, len(self.weight)).float()
        return self.s * (one_hot * phi + (1 - one_hot) * cosine)


backbone = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.PReLU(), nn.Linear(64, 16), nn.BatchNorm1d(16))
metric = ArcMargin(16, 8)
optimizer = torch.optim.SGD([*backbone.parameters(), *metric.parameters()], lr=0.05, momentum=0.9, weight_decay=5e-4)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=max(1, steps // 3), gamma=0.1)
centres = torch.randn(8, 20)
criterion = nn.CrossEntropyLoss()
history = []
for step in range(steps):
    label = torch.randint(8, (64,))
    x = centres[label] + 0.6 * torch.randn(64, 20)
    loss = criterion(metric(backbone(x), label), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
