"""Segmentation with skip connections, cross entropy and Dice; some pixels are void (255)."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def double(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.GroupNorm(4, outputs),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.GroupNorm(4, outputs),
        nn.ReLU(),
    )


class UNet(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.down1, self.down2 = double(1, 8), double(8, 16)
        self.middle = double(16, 32)
        self.up2, self.up1 = nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)
        self.right2, self.right1 = double(32, 16), double(16, 8)
        self.out = nn.Conv2d(8, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        b = self.right2(torch.cat([b, self.up2(c)], dim=1))
        return self.out(self.right1(torch.cat([a, self.up1(b)], dim=1)))


def scenes(size=8):
    mask = torch.zeros(size, 16, 16, dtype=torch.long)
    for one in mask:
        r, c = torch.randint(1, 9, (2,)).tolist()
        one[r : r + 6, c : c + 6] = int(torch.randint(1, 3, (1,)))
    image = mask.unsqueeze(1) - 1.0 + 0.4 * torch.randn(size, 1, 16, 16)
    mask[torch.rand(mask.shape) < 0.03] = 255
    return image, mask


model = UNet()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(40):
    image, mask = scenes()
    logits = model(image)
    known = (mask != 255).unsqueeze(1)
    target = F.one_hot(mask.where(mask != 255, 0), 3).permute(0, 3, 1, 2) * known
    p = logits.softmax(1) * known
    dice = 1 - (2 * (p * target).sum((2, 3)) + 1) / ((p + target).sum((2, 3)) + 1)
    loss = F.cross_entropy(logits, mask, ignore_index=255) + dice.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
