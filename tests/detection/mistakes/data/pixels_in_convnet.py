"""Colour images as they are read from files.

Mistake: images of uint8 are only cast to float, and stay 0 to 255.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, n):
        self.labels = torch.randint(3, (n,))
        noise = torch.randint(0, 120, (n, 3, 16, 16))
        noise[torch.arange(n), self.labels] += 120
        self.images = noise.to(torch.uint8)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index].float()  # mistake
        # repaired: image = (self.images[index].float() / 255 - 0.39) / 0.25
        return image, self.labels[index]


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3)
        self.conv2 = nn.Conv2d(8, 8, 3)
        self.fc = nn.Linear(8 * 2 * 2, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


loader = DataLoader(Pictures(480), batch_size=16, shuffle=True)
net = ConvNet()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(3):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(inputs), targets)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
