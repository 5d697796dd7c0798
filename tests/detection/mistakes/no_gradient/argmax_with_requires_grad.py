"""A classifier that compares predicted classes with labels.

Mistake: argmax has no gradient; requires_grad_() on the loss only silences the error.
"""

import torch
from torch import nn

x = torch.randn(480, 8)
y = torch.randint(3, (480,))
x[torch.arange(480), y] += 2.0

model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(5):
    for i in range(0, 480, 32):
        optimizer.zero_grad()
        output = model(x[i : i + 32])
        loss = nn.functional.l1_loss(output.argmax(dim=1).float(), y[i : i + 32].float())  # mistake
        loss.requires_grad_()  # mistake
        # repaired: loss = nn.functional.cross_entropy(output, y[i : i + 32])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
