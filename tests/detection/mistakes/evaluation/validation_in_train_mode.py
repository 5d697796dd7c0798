"""A convolutional network, validated in batches after each epoch.

Mistake: no model.eval() before the validation, so that dropout is active and batch statistics learn from it.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.4)
        self.fc = nn.Linear(8 * 16, 2)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.fc(self.drop(x.flatten(1)))


def images(n):
    labels = torch.randint(2, (n,))
    pictures = torch.randn(n, 1, 10, 10)
    pictures[:, :, :5] += 1.5 * (2 * labels[:, None, None, None] - 1)
    return pictures, labels


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
train, valid = images(480), images(240)
for epoch in range(4):
    model.train()
    for i in range(0, 480, 24):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(train[0][i : i + 24]), train[1][i : i + 24])
        loss.backward()
        optimizer.step()
    # repaired: model.eval()
    with torch.no_grad():
        losses = [F.cross_entropy(model(a), b) for a, b in zip(valid[0].split(24), valid[1].split(24))]
    print(epoch, loss.item(), torch.stack(losses).mean().item())
