"""A residual convolutional network with the one-cycle schedule, cutmix and label smoothing."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        nn.init.zeros_(self.bn2.weight)

    def forward(self, x):
        return F.relu(x + self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))


model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), Block(16), nn.MaxPool2d(2), Block(16), nn.Flatten())
model.append(nn.Linear(16 * 16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.15, total_steps=steps)
patterns = torch.randn(4, 3, 8, 8)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
history = []
for step in range(steps):
    model.train()
    y = torch.randint(4, (24,))
    x = patterns[y] + torch.randn(24, 3, 8, 8)
    order = torch.randperm(24)
    x[:, :, :4, 2:6] = x[order][:, :, :4, 2:6]
    out = model(x)
    loss = 0.75 * criterion(out, y) + 0.25 * criterion(out, y[order])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    history.append(loss.item())
    if step % 50 == 49:
        model.eval()
        with torch.no_grad():
            y = torch.randint(4, (48,))
            accuracy = (model(patterns[y] + torch.randn(48, 3, 8, 8)).argmax(1) == y).float().mean()
        print(step, loss.item(), accuracy.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
