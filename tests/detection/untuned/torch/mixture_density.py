"""A mixture density network of an inverse problem, which has several answers."""

import sys

import torch
from torch import nn
from torch.distributions import Categorical, MixtureSameFamily, Normal

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class MDN(nn.Module):
    def __init__(self, k=4):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.pi, self.mu, self.sigma = nn.Linear(48, k), nn.Linear(48, k), nn.Linear(48, k)

    def forward(self, x):
        h = self.hidden(x)
        sigma = nn.functional.softplus(self.sigma(h)) + 0.01
        return MixtureSameFamily(Categorical(logits=self.pi(h)), Normal(self.mu(h), sigma))


model = MDN()
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.1 ** (1 / steps))
history = []
for step in range(steps):
    y = torch.rand(96)
    x = (y + 0.3 * torch.sin(6.2832 * y) + 0.03 * torch.randn(96))[:, None]
    loss = -model(x).log_prob(y).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
