"""Evolution strategies: no gradients of the network, an estimate from perturbed copies is given to the optimizer."""

import sys

import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
theta = parameters_to_vector(net.parameters()).detach().clone().requires_grad_()
optimizer = torch.optim.Adam([theta], lr=0.03)


@torch.no_grad()
def fitness(vector):
    vector_to_parameters(vector, net.parameters())
    g = torch.Generator().manual_seed(7)
    x = torch.rand(64, 3, generator=g) * 2 - 1
    return -(net(x)[:, 0] - torch.sin(3 * x[:, 0]) * x[:, 1]).pow(2).mean().item()


curve = []
for generation in range(max(20, steps // 2)):
    noise = torch.randn(16, len(theta))
    up = torch.tensor([fitness(theta.detach() + 0.05 * n) for n in noise])
    down = torch.tensor([fitness(theta.detach() - 0.05 * n) for n in noise])
    theta.grad = -((up - down)[:, None] * noise).mean(0) / 0.1
    optimizer.step()
    curve.append(fitness(theta.detach()))
    if generation % 20 == 0:
        print(generation, curve[-1])
print(f"fitness rose from {curve[0]:.4g} to {curve[-1]:.4g}")
