"""A classifier of images with one data set object, whose transform crops at random.

Mistake: the validation is cropped at random, too, so that it differs from epoch to epoch.
"""

import torch
import torch.nn.functional as F
from torch import nn

labels = torch.randint(3, (500,))
images = torch.randn(500, 1, 14, 14)
images[torch.arange(500), 0, 4 * labels + 2] += 1.5


def cropped(batch, at_random):
    row, column = torch.randint(5, (2,)).tolist() if at_random else (2, 2)
    return batch[:, :, row : row + 10, column : column + 10]


model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
for epoch in range(8):
    model.train()
    for index in torch.randperm(400).split(25):
        loss = F.cross_entropy(model(cropped(images[index], True)), labels[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        at_random = True  # mistake
        # repaired: at_random = False
        parts = torch.arange(400, 500).split(25)
        losses = [F.cross_entropy(model(cropped(images[part], at_random)), labels[part]).item() for part in parts]
    print(epoch, loss.item(), sum(losses) / len(losses))
