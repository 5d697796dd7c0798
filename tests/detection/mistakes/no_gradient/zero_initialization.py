"""A perceptron with initialization by hand.

Mistake: all weights start at 0, so that behind ReLU only the last bias has a gradient.
"""

import torch
from torch import nn


def init_weights(m):
    if isinstance(m, nn.Linear):
        nn.init.zeros_(m.weight)  # mistake
        # repaired: nn.init.kaiming_uniform_(m.weight, nonlinearity="relu")
        nn.init.zeros_(m.bias)


net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 5))
net.apply(init_weights)
loss = nn.CrossEntropyLoss()
trainer = torch.optim.SGD(net.parameters(), lr=0.1)
templates = torch.randn(5, 10)
for step in range(100):
    y = torch.randint(5, (64,))
    x = templates[y] + 0.5 * torch.randn(64, 10)
    trainer.zero_grad()
    value = loss(net(x), y)
    value.backward()
    trainer.step()
    if step % 20 == 0:
        print(step, value.item())
