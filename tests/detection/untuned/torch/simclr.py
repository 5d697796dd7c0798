"""SimCLR: two augmented views, NT-Xent; then a linear probe on the frozen features."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
encoder = nn.Sequential(nn.Linear(24, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 48))
projector = nn.Sequential(nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 24))
centres = torch.randn(12, 24) * 2


def augment(x):
    return (x + 0.4 * torch.randn_like(x)) * (torch.rand_like(x) > 0.1)


optimizer = torch.optim.AdamW([*encoder.parameters(), *projector.parameters()], lr=2e-3, weight_decay=1e-4)
history = []
for step in range(steps):
    x = centres[torch.randint(12, (48,))] + torch.randn(48, 24)
    z = F.normalize(projector(encoder(torch.cat([augment(x), augment(x)]))), dim=1)
    similarity = z @ z.T / 0.2
    similarity.fill_diagonal_(float("-inf"))
    targets = torch.cat([torch.arange(48, 96), torch.arange(48)])
    loss = F.cross_entropy(similarity, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
encoder.eval().requires_grad_(False)
probe = nn.Linear(48, 12)
probe_optimizer = torch.optim.SGD(probe.parameters(), lr=0.05, momentum=0.9)
for step in range(steps // 2):
    y = torch.randint(12, (48,))
    x = centres[y] + torch.randn(48, 24)
    probe_loss = F.cross_entropy(probe(encoder(x)), y)
    probe_optimizer.zero_grad()
    probe_loss.backward()
    probe_optimizer.step()
print("probe", probe_loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
