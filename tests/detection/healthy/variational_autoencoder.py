"""A VAE of images between 0 and 1: summed binary cross entropy and divergence, as in pytorch/examples."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

steps = int(sys.argv[1])


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 40)
        self.fc21 = nn.Linear(40, 4)
        self.fc22 = nn.Linear(40, 4)
        self.fc3 = nn.Linear(4, 40)
        self.fc4 = nn.Linear(40, 64)

    def forward(self, x):
        h = F.relu(self.fc1(x.view(-1, 64)))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
strokes = (torch.rand(6, 64) < 0.25).float()
for step in range(steps):
    x = (0.9 * strokes[torch.randint(6, (64,))] + 0.1 * torch.rand(64, 64)).view(64, 1, 8, 8)
    recon, mu, logvar = model(x)
    bce = F.binary_cross_entropy(recon, x.view(-1, 64), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    loss = bce + kld
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item() / len(x))
