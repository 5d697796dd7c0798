"""A physics-informed network of an ordinary differential equation: Adam, then L-BFGS with a closure."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))


def loss_of(t):
    t = t.requires_grad_()
    u = net(t)
    (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    (ddu,) = torch.autograd.grad(du.sum(), t, create_graph=True)
    residual = ddu + 0.4 * du + 4 * u
    zero = torch.zeros(1, 1, requires_grad=True)
    u0 = net(zero)
    (du0,) = torch.autograd.grad(u0.sum(), zero, create_graph=True)
    return residual.pow(2).mean() + 10 * (u0 - 1).pow(2).mean() + du0.pow(2).mean()


optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
history = []
for step in range(steps):
    loss = loss_of(torch.rand(64, 1) * 3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print("Adam", step, loss.item())
points = torch.linspace(0, 3, 64)[:, None]
optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = loss_of(points.clone())
    loss.backward()
    return loss


for step in range(steps // 5):
    loss = optimizer.step(closure)
    history.append(loss.item())
print("LBFGS", history[-1])
print(f"loss fell from {history[0]:.4g} to {history[-1]:.4g}")
