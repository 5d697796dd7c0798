"""A small U-Net with deep supervision: cross entropy and Dice on two scales, and validation by Dice."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc1, self.enc2, self.mid = block(1, 8), block(8, 16), block(16, 16)
        self.dec2, self.dec1 = block(32, 16), block(24, 8)
        self.out, self.aux = nn.Conv2d(8, 1, 1), nn.Conv2d(16, 1, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        d = self.dec2(torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        e = self.dec1(torch.cat([F.interpolate(d, scale_factor=2.0), a], 1))
        return self.out(e), self.aux(d)


def dice(logits, mask):
    p = logits.sigmoid()
    return 1 - (2 * (p * mask).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)


grid = torch.stack(torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij"))


def batch(n=8):
    centre, radius = 4 + 8 * torch.rand(n, 2, 1, 1), 2 + 3 * torch.rand(n, 1, 1)
    mask = (((grid - centre) ** 2).sum(1) < radius**2).float()[:, None]
    return mask * (0.6 + torch.rand(n, 1, 1, 1)) + 0.4 * torch.randn(n, 1, 16, 16), mask


model = UNet()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=steps, power=0.9)
history = []
for step in range(steps):
    model.train()
    x, mask = batch()
    loss = 0.0
    for logits, weight in zip(model(x), (1.0, 0.4)):
        target = F.interpolate(mask, logits.shape[2:])
        bce = F.binary_cross_entropy_with_logits(logits, target)
        loss = loss + weight * (bce + dice(logits, target).mean())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    history.append(loss.item())
    if step % 50 == 49:
        model.eval()
        with torch.no_grad():
            x, mask = batch(16)
            print(step, loss.item(), 1 - dice(model(x)[0], mask).mean().item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
