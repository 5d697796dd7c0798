"""Linear regression with updates by hand under no_grad, as in a first tutorial; the loss converges."""

import sys

import torch

steps = int(sys.argv[1])
w = torch.zeros(5, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
truth = torch.tensor([[1.0], [-2.0], [0.5], [3.0], [0.0]])
for step in range(steps):
    x = torch.randn(32, 5)
    y = x @ truth + 1.5 + 0.1 * torch.randn(32, 1)
    loss = (x @ w + b - y).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.05 * w.grad
        b -= 0.05 * b.grad
    w.grad.zero_()
    b.grad.zero_()
    if step % 50 == 0:
        print(step, loss.item())
