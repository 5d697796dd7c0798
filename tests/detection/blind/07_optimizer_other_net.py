"""Diffusion policy style behaviour cloning: two networks, one optimizer."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
obs = torch.randn(3000, 6)
act = torch.stack([torch.sin(obs[:, 0] * 2), obs[:, 1] * obs[:, 2]], 1) + 0.05 * torch.randn(3000, 2)
loader = DataLoader(TensorDataset(obs, act), batch_size=64, shuffle=True)
n_T = 50
betas = torch.linspace(1e-4, 0.08, n_T)
abar = torch.cumprod(1 - betas, 0)


class VelocityNet(nn.Module):
    def __init__(self, extra):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(6 + 2 + extra, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 2)
        )

    def forward(self, *xs):
        return self.net(torch.cat(xs, -1))


noise_pred_net = VelocityNet(1)
velocity_net = VelocityNet(1)

opt_vel = torch.optim.AdamW(velocity_net.parameters(), lr=1e-3, weight_decay=1e-6)
for epoch in range(4):
    losses = []
    for o, a in loader:
        t = torch.rand(len(o), 1)
        x0 = torch.randn_like(a)
        v = velocity_net(o, (1 - t) * x0 + t * a, t)
        loss = ((v - (a - x0)) ** 2).mean()
        opt_vel.zero_grad()
        loss.backward()
        opt_vel.step()
        losses.append(loss.item())
    print(f"[flow] epoch {epoch} loss {sum(losses) / len(losses):.4f}")

optimizer = torch.optim.AdamW(velocity_net.parameters(), lr=1e-3, weight_decay=1e-6)  # mistake
# repaired: optimizer = torch.optim.AdamW(noise_pred_net.parameters(), lr=1e-3, weight_decay=1e-6)
for epoch in range(6):
    losses = []
    for o, a in loader:
        t = torch.randint(0, n_T, (len(o),))
        eps = torch.randn_like(a)
        ab = abar[t][:, None]
        noisy = ab.sqrt() * a + (1 - ab).sqrt() * eps
        pred = noise_pred_net(o, noisy, t[:, None].float() / n_T)
        loss = nn.functional.mse_loss(pred, eps)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"[diffusion] epoch {epoch} loss {sum(losses) / len(losses):.4f}")
