"""Dense blocks that concatenate all earlier features."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class DenseLayer(nn.Module):
    def __init__(self, inputs, growth):
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, growth, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.cat([x, self.conv(F.relu(self.norm(x)))], dim=1)


class DenseNet(nn.Module):
    def __init__(self, growth=6, classes=4):
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, padding=1, bias=False)
        self.block1 = nn.Sequential(*[DenseLayer(12 + i * growth, growth) for i in range(3)])
        self.transition = nn.Sequential(
            nn.BatchNorm2d(30), nn.ReLU(), nn.Conv2d(30, 15, 1, bias=False), nn.AvgPool2d(2)
        )
        self.block2 = nn.Sequential(*[DenseLayer(15 + i * growth, growth) for i in range(3)])
        self.norm, self.head = nn.BatchNorm2d(33), nn.Linear(33, classes)

    def forward(self, x):
        x = self.block2(self.transition(self.block1(self.stem(x))))
        return self.head(F.relu(self.norm(x)).mean((2, 3)))


model = DenseNet()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
templates = torch.randn(4, 3, 10, 10)
for step in range(40):
    y = torch.randint(0, 4, (32,))
    x = templates[y] + torch.randn(32, 3, 10, 10)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
