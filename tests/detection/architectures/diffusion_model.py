"""Denoising diffusion: noise of a random level is predicted, with the level as a sinusoidal embedding."""

import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
T = 100
alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.05, T), 0)


class Denoiser(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.inputs = nn.Conv2d(1, width, 3, padding=1)
        self.conv1, self.conv2 = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(4, width), nn.GroupNorm(4, width)
        self.out = nn.Conv2d(width, 1, 3, padding=1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.width = width

    def forward(self, x, t):
        frequency = torch.exp(-math.log(1000) * torch.arange(self.width // 2) / (self.width // 2))
        angle = t[:, None] * frequency
        emb = self.time(torch.cat([angle.sin(), angle.cos()], dim=1))[:, :, None, None]
        h = self.inputs(x)
        h = h + self.conv1(F.silu(self.norm1(h))) + emb
        h = h + self.conv2(F.silu(self.norm2(h)))
        return self.out(h)


model = Denoiser()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
shapes = torch.randn(3, 1, 8, 8).sign()
for step in range(50):
    x = shapes[torch.randint(0, 3, (16,))]
    t = torch.randint(0, T, (16,))
    a = alphas[t][:, None, None, None]
    noise = torch.randn_like(x)
    loss = F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
