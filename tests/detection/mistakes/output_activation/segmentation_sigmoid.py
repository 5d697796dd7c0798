"""Three classes per pixel.

Mistake: sigmoid before cross entropy over classes, which takes logits.
"""

import torch
import torch.nn as nn


class SmallUNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.bottom = nn.Sequential(
            nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Upsample(scale_factor=2)
        )
        self.dec = nn.Conv2d(24, n_classes, 3, padding=1)

    def forward(self, x):
        skip = self.enc(x)
        x = self.dec(torch.cat([skip, self.bottom(skip)], dim=1))
        return torch.sigmoid(x)  # mistake
        # repaired: return x


model = SmallUNet(3)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for it in range(80):
    mask = torch.randint(3, (6, 4, 4)).repeat_interleave(3, 1).repeat_interleave(3, 2)
    image = (mask.float() - 1).unsqueeze(1) + 0.3 * torch.randn(6, 1, 12, 12)
    loss = criterion(model(image), mask)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if it % 20 == 0:
        print(it, loss.item())
