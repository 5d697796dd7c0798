"""A regression of wine quality; a function trains for one epoch.

Mistake: the function makes its own SGD, so that the momentum starts at zero whenever it is called.
"""

import torch
from torch import nn

wine = torch.randn(600, 11)
quality = (wine[:, :3].sum(dim=1, keepdim=True) + 0.3 * torch.randn(600, 1)) / 2


def train_one_epoch(net, optimizer):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)  # mistake
    for rows in torch.randperm(600).split(30):
        loss = nn.functional.mse_loss(net(wine[rows]), quality[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


net = nn.Sequential(nn.Linear(11, 32), nn.Tanh(), nn.Linear(32, 1))
sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
for epoch in range(8):
    print(epoch, train_one_epoch(net, sgd))
