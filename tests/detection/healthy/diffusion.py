"""Denoising diffusion of points: a network predicts the noise, at a random level for each sample."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
levels = 50
alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.15, levels), dim=0)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(levels, 16)
        self.net = nn.Sequential(nn.Linear(18, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time(t)], dim=1))


model = Denoiser()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
for step in range(steps):
    x = torch.randint(0, 2, (64, 2)) * 2.0 - 1 + 0.1 * torch.randn(64, 2)
    t = torch.randint(levels, (64,))
    noise = torch.randn_like(x)
    a = alpha_bar[t, None]
    loss = nn.functional.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    average.update_parameters(model)
    if step % 50 == 0:
        print(step, loss.item())
