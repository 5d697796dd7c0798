"""Linear regression with updates by hand, as in a first tutorial.

Mistake: a learning rate of 1, at which the loss becomes infinite, then not a number.
"""

import torch

x = torch.randn(256, 6)
y = x @ torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0, -1.0]) + 4.2
w = torch.zeros(6, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
lr = 2.0  # mistake
# repaired: lr = 0.05
for epoch in range(15):
    for i in range(0, 256, 32):
        prediction = x[i : i + 32] @ w + b
        loss = ((prediction - y[i : i + 32]) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= lr * w.grad
            b -= lr * b.grad
            w.grad.zero_()
            b.grad.zero_()
    print(epoch, loss.item())
