"""House prices in standard units.

Mistake: plain SGD with a rate of 1e-6.
"""

import torch
import torch.nn as nn

house = torch.randn(640, 6)
price = (house @ torch.tensor([1.0, -2.0, 0.5, 0.0, 1.5, 0.3])).unsqueeze(1) / 2.7
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
optim = torch.optim.SGD(net.parameters(), lr=1e-6)  # mistake
# repaired: optim = torch.optim.SGD(net.parameters(), lr=3e-2)
for epoch in range(10):
    for part in torch.randperm(640).split(32):
        loss = nn.functional.mse_loss(net(house[part]), price[part])
        optim.zero_grad()
        loss.backward()
        optim.step()
    print(epoch, loss.item())
