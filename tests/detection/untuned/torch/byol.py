"""BYOL: an online network predicts what its moving average makes of another view."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
online = nn.Sequential(
    nn.Linear(20, 64),
    nn.BatchNorm1d(64),
    nn.ReLU(),
    nn.Linear(64, 64),
    nn.BatchNorm1d(64),
    nn.ReLU(),
    nn.Linear(64, 16),
)
predictor = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
target = copy.deepcopy(online)
for p in target.parameters():
    p.requires_grad = False
opt = torch.optim.Adam(list(online.parameters()) + list(predictor.parameters()), lr=2e-3)
centres = torch.randn(8, 20) * 1.5
history = []
for step in range(steps):
    x = centres[torch.randint(8, (64,))] + 0.7 * torch.randn(64, 20)
    one, two = x + 0.3 * torch.randn_like(x), x + 0.3 * torch.randn_like(x)
    with torch.no_grad():
        t1, t2 = target(one), target(two)
    p1, p2 = predictor(online(one)), predictor(online(two))
    loss = (2 - 2 * F.cosine_similarity(p1, t2)).mean() + (2 - 2 * F.cosine_similarity(p2, t1)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    tau = 1 - 0.02 * (1 - step / steps)
    with torch.no_grad():
        for p, q in zip(online.parameters(), target.parameters()):
            q.mul_(tau).add_(p, alpha=1 - tau)
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
