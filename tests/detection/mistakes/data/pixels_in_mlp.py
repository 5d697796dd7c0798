"""Digits as flat vectors of pixels.

Mistake: the pixels are 0 to 255.
"""

import torch
from torch import nn

masks = (torch.rand(5, 64) < 0.3).float()
labels = torch.randint(5, (640,))
pixels = (255 * (0.8 * masks[labels] + 0.2 * torch.rand(640, 64))).round()
images = pixels  # mistake
# repaired: images = (pixels - pixels.mean()) / pixels.std()
model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 5))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(5):
    for i in range(0, 640, 32):
        optimizer.zero_grad()
        loss = criterion(model(images[i : i + 32]), labels[i : i + 32])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
