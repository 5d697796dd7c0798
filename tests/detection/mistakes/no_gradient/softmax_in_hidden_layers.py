"""A classifier whose author took softmax for an activation like any other.

Mistake: softmax behind the hidden layers, whose outputs become about 1 / n each.
"""

import torch
import torch.nn as nn

hidden = nn.Softmax(dim=1)  # mistake
# repaired: hidden = nn.ReLU()
model = nn.Sequential(nn.Linear(8, 64), hidden, nn.Linear(64, 64), hidden, nn.Linear(64, 64), hidden, nn.Linear(64, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
corner = torch.randn(3, 8)
for step in range(400):
    label = torch.randint(3, (40,))
    points = corner[label] * 1.5 + torch.randn(40, 8)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(points), label)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
