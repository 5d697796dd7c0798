"""A convolutional network on images as ToTensor() gives them: 0 to 1, not normalized; NLL of log_softmax."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

steps = int(sys.argv[1])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.dropout1 = nn.Dropout(0.25)
        self.fc1 = nn.Linear(64, 32)
        self.dropout2 = nn.Dropout(0.5)
        self.fc2 = nn.Linear(32, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.relu(self.conv2(x))
        x = self.dropout1(F.max_pool2d(x, 2)).flatten(1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


patterns = torch.rand(5, 3, 14, 14)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=max(1, steps // 4), gamma=0.7)
for step in range(steps):
    y = torch.randint(5, (24,))
    x = (0.7 * patterns[y] + 0.3 * torch.rand(24, 3, 14, 14)).clamp(0, 1)
    optimizer.zero_grad()
    loss = F.nll_loss(model(x), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 50 == 0:
        print(step, loss.item())
