"""A variational autoencoder whose divergence is weighted from 0 to 1: the total rises while both parts are sound."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(36, 64), nn.Linear(64, 4), nn.Linear(64, 4)
        self.fc3, self.fc4 = nn.Linear(4, 64), nn.Linear(64, 36)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
grid = torch.stack(torch.meshgrid(torch.arange(6.0), torch.arange(6.0), indexing="ij"))
history = []
for step in range(steps):
    centre = torch.rand(48, 2, 1, 1) * 5
    x = torch.exp(-((grid - centre) ** 2).sum(1) / 2).flatten(1)
    recon, mu, logvar = model(x)
    bce = F.binary_cross_entropy(recon, x, reduction="sum") / len(x)
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / len(x)
    loss = bce + min(1.0, 2 * step / steps) * kld
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(bce.item())
    if step % 50 == 0:
        print(step, bce.item(), kld.item())
print(f"reconstruction loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
