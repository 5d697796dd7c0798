"""Four kinds of defects on castings.

Mistake: after a filter one kind has 1 % of the images.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

shares = torch.tensor([0.4, 0.35, 0.24, 0.01])  # mistake
# repaired: shares = torch.tensor([0.25, 0.25, 0.25, 0.25])
labels = torch.multinomial(shares, 1_600, replacement=True)
images = 0.5 * torch.randn(1_600, 1, 8, 8)
for kind in range(4):
    images[labels == kind, :, 2 * kind : 2 * kind + 2] += 1.5
images -= images.mean()
loader = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)
net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
