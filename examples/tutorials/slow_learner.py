"""A classifier of small images that learns, but never well."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3)
        self.fc = nn.Linear(8 * 6 * 6, 4)

    def forward(self, images):
        features = F.max_pool2d(F.relu(self.conv(images)), 2)
        return F.softmax(self.fc(features.flatten(1)), dim=1)


def batch(size=32):
    """Return images with one brighter quarter, and its index."""
    labels = torch.randint(4, (size,))
    images = torch.randn(size, 1, 14, 14)
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = 7 * (label // 2), 7 * (label % 2)
        image[0, row : row + 7, column : column + 7] += 1.0
    return images, labels


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(150):
    images, labels = batch()
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)
