"""Self-supervised: the target network is an average of the online one, by .data, and has statistics of its own."""

import copy
import sys

import torch
from torch import nn
from torch.nn import functional as F

steps = int(sys.argv[1])


def mlp(inputs, width, outputs):
    return nn.Sequential(nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, outputs))


class Views(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.predictor = mlp(12, 48, 16), mlp(16, 32, 16)
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def forward(self, first, second):
        with torch.no_grad():
            wanted = self.target(second)
        return 1 - F.cosine_similarity(self.predictor(self.online(first)), wanted).mean()

    def average(self):
        for mine, theirs in zip(self.online.parameters(), self.target.parameters()):
            theirs.data = 0.98 * theirs.data + 0.02 * mine.data


model = Views()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
centres = torch.randn(6, 12)
for step in range(steps):
    x = centres[torch.randint(6, (96,))] + 0.4 * torch.randn(96, 12)
    views = [x + 0.3 * torch.randn_like(x) for _ in range(2)]
    loss = model(*views) + model(*views[::-1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.average()
    if step % 50 == 0:
        print(step, loss.item())
