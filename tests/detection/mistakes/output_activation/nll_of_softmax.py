"""Digits of a small display, read by two fully connected layers.

Mistake: nll_loss of softmax; it takes log_softmax.
"""

import torch
import torch.nn.functional as F
from torch import nn, optim

SEGMENTS = torch.tensor(
    [[1, 1, 1, 0, 1, 1, 1], [0, 0, 1, 0, 0, 1, 0], [1, 0, 1, 1, 1, 0, 1], [1, 0, 1, 1, 0, 1, 1], [0, 1, 1, 1, 0, 1, 0]]
).float()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(7, 64)
        self.fc2 = nn.Linear(64, 5)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return F.softmax(self.fc2(x), dim=1)  # mistake
        # repaired: return F.log_softmax(self.fc2(x), dim=1)


model = Classifier()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for batch_idx in range(160):
    target = torch.randint(5, (32,))
    data = 2 * SEGMENTS[target] - 1 + 0.4 * torch.randn(32, 7)
    optimizer.zero_grad()
    output = model(data)
    loss = F.nll_loss(output, target)
    loss.backward()
    optimizer.step()
    if batch_idx % 40 == 0:
        print(f"Train {batch_idx}: {loss.item():.6f}")
