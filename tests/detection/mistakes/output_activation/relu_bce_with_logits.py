"""Labels per pixel from a small fully convolutional network.

Mistake: ReLU on the logits before binary cross entropy with logits, so no probability is below one half.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 8, 3, padding=1)
        self.mid = nn.Conv2d(8, 8, 3, padding=1)
        self.up = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        x = F.relu(self.down(x))
        x = F.relu(self.mid(x))
        return F.relu(self.up(x))  # mistake
        # repaired: return self.up(x)


model = Segmenter()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(100):
    masks = (torch.rand(8, 1, 4, 4) > 0.5).float().repeat_interleave(4, 2).repeat_interleave(4, 3)
    images = 2 * masks - 1 + 0.5 * torch.randn(8, 1, 16, 16)
    optimizer.zero_grad()
    loss = F.binary_cross_entropy_with_logits(model(images), masks)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, float(loss))
