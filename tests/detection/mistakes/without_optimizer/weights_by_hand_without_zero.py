"""Linear regression from scratch.

Mistake: w.grad.zero_() is missing, so that gradients add up.
"""

import torch

x = torch.randn(200, 3)
y = x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.3
w = torch.randn(3, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for step in range(100):
    loss = ((x @ w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.02 * w.grad
        b -= 0.02 * b.grad
        # repaired: w.grad.zero_()
        # repaired: b.grad.zero_()
    if step % 20 == 0:
        print(step, loss.item())
