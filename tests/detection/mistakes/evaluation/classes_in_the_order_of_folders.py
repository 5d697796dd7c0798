"""A classifier of images in folders, validated after each epoch.

Mistake: the classes of the validation are numbered in the order in which its folders were listed.
"""

import torch
import torch.nn.functional as F
from torch import nn

names = ["beech", "birch", "larch", "maple", "oak", "pine"]
listed = ["oak", "larch", "beech", "pine", "birch", "maple"]  # mistake
# repaired: listed = names
means = {name: torch.randn(24) for name in names}


def folder(order, n):
    data = [(means[name] + torch.randn(24), order.index(name)) for name in names for _ in range(n)]
    index = torch.randperm(len(data))
    return torch.stack([data[i][0] for i in index]), torch.tensor([data[i][1] for i in index])


train_x, train_y = folder(names, 100)
valid_x, valid_y = folder(listed, 40)
model = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 6))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(10):
    model.train()
    for index in torch.randperm(600).split(40):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(train_x[index]), train_y[index])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [F.cross_entropy(model(x), y).item() for x, y in zip(valid_x.split(60), valid_y.split(60))]
    print(epoch, loss.item(), sum(losses) / len(losses))
