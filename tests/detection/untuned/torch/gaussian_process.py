"""Hyperparameters of a Gaussian process by its marginal likelihood: three numbers, no network."""

import math
import sys

import torch

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
x = torch.rand(40, 1, dtype=torch.double) * 6
y = torch.sin(3 * x[:, 0]) + 0.1 * torch.randn(40, dtype=torch.double)
log_length = torch.tensor(1.0, dtype=torch.double, requires_grad=True)
log_scale = torch.tensor(0.0, dtype=torch.double, requires_grad=True)
log_noise = torch.tensor(0.0, dtype=torch.double, requires_grad=True)
optimizer = torch.optim.Adam([log_length, log_scale, log_noise], lr=0.03)
history = []
for step in range(steps):
    optimizer.zero_grad()
    distance = (x - x.T).pow(2)
    K = log_scale.exp() * torch.exp(-0.5 * distance / log_length.exp() ** 2)
    K = K + (log_noise.exp() + 1e-6) * torch.eye(40, dtype=torch.double)
    L = torch.linalg.cholesky(K)
    alpha = torch.cholesky_solve(y[:, None], L)[:, 0]
    loss = 0.5 * y @ alpha + L.diagonal().log().sum() + 20 * math.log(2 * math.pi)
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item(), log_length.exp().item(), log_noise.exp().item())
print(f"loss fell from {history[0]:.4g} to {history[-1]:.4g}")
