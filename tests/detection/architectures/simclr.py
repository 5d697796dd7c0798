"""Two views of each picture, and cross entropy over the similarities within the batch: samples depend on each other."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(
    nn.Conv2d(1, 12, 3, padding=1),
    nn.BatchNorm2d(12),
    nn.ReLU(),
    nn.Conv2d(12, 24, 3, 2, 1),
    nn.BatchNorm2d(24),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(2),
    nn.Flatten(),
)
projector = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 16))
optimizer = torch.optim.Adam([*encoder.parameters(), *projector.parameters()], lr=2e-3)


def view(x):
    x = torch.roll(x, tuple(torch.randint(-1, 2, (2,)).tolist()), (2, 3))
    return x + 0.2 * torch.randn_like(x)


def nt_xent(a, b, temperature=0.5):
    z = F.normalize(torch.cat([a, b]), dim=1)
    similarity = (z @ z.T / temperature).masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    partner = torch.arange(len(z)).roll(len(a))
    return F.cross_entropy(similarity, partner)


for step in range(40):
    x = torch.randn(24, 1, 8, 8)
    loss = nt_xent(projector(encoder(view(x))), projector(encoder(view(x))))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
