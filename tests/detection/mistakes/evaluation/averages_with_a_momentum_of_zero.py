"""Small images of four patterns, classified by a network with batch normalization.

Mistake: the momentum of the averages is 0, as if it were the share of the old value that is lost in the optimizer.
"""

import torch
from torch import nn

momentum = 0.0  # mistake
# repaired: momentum = 0.1


def block(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs, momentum=momentum), nn.ReLU()]


model = nn.Sequential(*block(3, 8), nn.MaxPool2d(2), *block(8, 16), nn.AdaptiveAvgPool2d(2), nn.Flatten())
model.append(nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
patterns = torch.randn(4, 3, 12, 12)


def images():
    y = torch.randint(4, (24,))
    return patterns[y] + 0.8 * torch.randn(24, 3, 12, 12), y


for step in range(250):
    x, y = images()
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    if step % 100 == 99:
        model.eval()
        with torch.no_grad():
            x, y = images()
            print(step, "accuracy", (model(x).argmax(1) == y).float().mean().item())
        model.train()
