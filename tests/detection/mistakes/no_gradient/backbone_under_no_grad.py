"""A convolutional backbone and a linear head, to be trained as a whole.

Mistake: the backbone runs under torch.no_grad(), left over from an experiment with frozen features.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class ImageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten()
        )
        self.fc = nn.Linear(64, 2)

    def forward(self, x):
        with torch.no_grad():  # mistake
            features = self.backbone(x)  # mistake
        # repaired: features = self.backbone(x)
        return self.fc(features)


model = ImageModel()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(90):
    y = torch.randint(2, (16,))
    x = torch.randn(16, 3, 12, 12)
    x[:, 0, :6] += 2.0 * y[:, None, None] - 1.0
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
