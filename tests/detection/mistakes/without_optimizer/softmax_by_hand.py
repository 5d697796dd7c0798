"""Logistic regression for three classes, with updates by hand.

Mistake: softmax before cross_entropy, which takes logits.
"""

import torch
import torch.nn.functional as F

centres = torch.randn(3, 5)
W = torch.randn(5, 3) * 0.1
W.requires_grad_()
b = torch.zeros(3, requires_grad=True)
for step in range(120):
    y = torch.randint(3, (40,))
    x = centres[y] + 0.5 * torch.randn(40, 5)
    out = x @ W + b
    out = F.softmax(out, dim=1)  # mistake
    loss = F.cross_entropy(out, y)
    loss.backward()
    with torch.no_grad():
        for p in (W, b):
            p -= 0.5 * p.grad
            p.grad = None
    if step % 20 == 0:
        print(step, loss.item())
