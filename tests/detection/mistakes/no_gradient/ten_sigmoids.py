"""Which of five random directions a point lies along, learned by a deep network.

Mistake: nine hidden layers with sigmoids, so that almost nothing of the gradient reaches the first ones.
"""

import torch
from torch import nn

x = torch.randn(3000, 32)
y = (x @ torch.randn(32, 5)).argmax(1)
hidden = nn.Sigmoid  # mistake
# repaired: hidden = nn.ReLU
layers = [nn.Linear(32, 64)]
for _ in range(8):
    layers += [hidden(), nn.Linear(64, 64)]
model = nn.Sequential(*layers, hidden(), nn.Linear(64, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(4):
    for at in range(0, len(x), 30):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[at : at + 30]), y[at : at + 30])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
