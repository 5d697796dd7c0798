"""A GAN on two-dimensional points.

Mistake: the discriminator's optimizer holds the generator's parameters.
"""

import torch
from torch import nn

G = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2))
D = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1), nn.Sigmoid())
criterion = nn.BCELoss()
d_optimizer = torch.optim.Adam(G.parameters(), lr=1e-3)  # mistake
# repaired: d_optimizer = torch.optim.Adam(D.parameters(), lr=1e-3)
g_optimizer = torch.optim.Adam(G.parameters(), lr=1e-3)

for epoch in range(100):
    x = torch.randn(50, 2) * torch.tensor([1.0, 0.3]) + torch.tensor([1.0, -1.0])
    D.zero_grad()
    d_real = criterion(D(x), torch.ones(50, 1))
    fake = G(torch.randn(50, 3))
    d_fake = criterion(D(fake.detach()), torch.zeros(50, 1))
    (d_real + d_fake).backward()
    d_optimizer.step()

    G.zero_grad()
    g_loss = criterion(D(G(torch.randn(50, 3))), torch.ones(50, 1))
    g_loss.backward()
    g_optimizer.step()
    if epoch % 20 == 0:
        print(epoch, d_real.item() + d_fake.item(), g_loss.item())
