"""Segment bright blobs with a small U-Net and the Dice loss."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
SIZE = 32


def blobs(n, generator):
    axis = torch.arange(SIZE).float()
    masks = torch.zeros(n, 1, SIZE, SIZE)
    for _ in range(2):
        cx, cy = (6 + 20 * torch.rand(2, n, 1, 1, generator=generator)).unbind(0)
        radius = 3 + 3 * torch.rand(n, 1, 1, generator=generator)
        inside = (axis[None, None, :] - cx) ** 2 + (axis[None, :, None] - cy) ** 2 < radius**2
        masks[:, 0] = torch.maximum(masks[:, 0], inside.float())
    images = masks + 0.8 * torch.randn(masks.shape, generator=generator)
    return images, masks


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.down2 = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.up = nn.Sequential(nn.Conv2d(24, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        return self.head(self.up(torch.cat([a, F.interpolate(b, scale_factor=2)], 1)))


def dice_loss(prediction, target, smooth=1.0):
    prediction, target = prediction.flatten(1), target.flatten(1)
    overlap = (prediction * target).sum(1)
    return 1 - ((2 * overlap + smooth) / (prediction.sum(1) + target.sum(1) + smooth)).mean()


def main():
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(*blobs(320, generator)), batch_size=16, shuffle=True)
    val_x, val_y = blobs(100, generator)
    model = UNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(8):
        model.train()
        total = 0.0
        for x, y in loader:
            output = model(x)
            loss = dice_loss(output.sigmoid() if FIXED else output, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            found = model(val_x).sigmoid() > 0.5
        iou = ((found & (val_y > 0.5)).sum() / (found | (val_y > 0.5)).sum()).item()
        print(f"epoch {epoch}  loss {total / len(loader):.3f}  val IoU {iou:.3f}")


if __name__ == "__main__":
    main()
