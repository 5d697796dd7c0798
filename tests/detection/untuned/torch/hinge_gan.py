"""A GAN with spectral normalization and the hinge loss; the discriminator is trained alone at first."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
G = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
D = nn.Sequential(
    spectral_norm(nn.Linear(2, 64)),
    nn.LeakyReLU(0.1),
    spectral_norm(nn.Linear(64, 64)),
    nn.LeakyReLU(0.1),
    spectral_norm(nn.Linear(64, 1)),
)
opt_g = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.0, 0.9))
opt_d = torch.optim.Adam(D.parameters(), lr=4e-3, betas=(0.0, 0.9))
centres = torch.tensor([[1.5, 0.0], [-1.5, 0.0], [0.0, 1.5], [0.0, -1.5]]) + 3


def distance():
    G.eval()
    with torch.no_grad():
        d = torch.cdist(G(torch.randn(400, 8)), centres)
    G.train()
    return d.min(1).values.mean().item()


before = distance()
for step in range(steps):
    real = centres[torch.randint(4, (64,))] + 0.1 * torch.randn(64, 2)
    with torch.no_grad():
        fake = G(torch.randn(64, 8))
    d_loss = F.relu(1 - D(real)).mean() + F.relu(1 + D(fake)).mean()
    opt_d.zero_grad(set_to_none=True)
    d_loss.backward()
    opt_d.step()
    if step >= 20:
        g_loss = -D(G(torch.randn(64, 8))).mean()
        opt_g.zero_grad(set_to_none=True)
        g_loss.backward()
        opt_g.step()
        if step % 50 == 0:
            print(step, d_loss.item(), g_loss.item())
print(f"distance fell from {before:.4g} to {distance():.4g}")
