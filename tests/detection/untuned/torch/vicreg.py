"""VICReg: invariance, variance and covariance, weighted 25, 25 and 1."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
net = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 24))
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
mix = torch.randn(8, 20)
history = []
for step in range(steps):
    x = torch.randn(64, 8) @ mix / 3
    za, zb = net(x + 0.3 * torch.randn_like(x)), net(x + 0.3 * torch.randn_like(x))
    repr_loss = F.mse_loss(za, zb)
    std_loss = sum(torch.relu(1 - torch.sqrt(z.var(0) + 1e-4)).mean() / 2 for z in (za, zb))
    cov_loss = 0.0
    for z in (za, zb):
        z = z - z.mean(0)
        cov = z.T @ z / 63
        cov_loss = cov_loss + (cov - torch.diag(cov.diag())).pow(2).sum() / 24
    loss = 25 * repr_loss + 25 * std_loss + cov_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
