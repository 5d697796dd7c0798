"""Segmentation of tissue in four classes; images and masks are made smaller before training."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)

BACKGROUND, WALL, FLUID, NUCLEUS = range(4)


def slides(n, generator):
    """Small nuclei on background, next to patches of fluid with a wall."""
    axis = torch.arange(40.0)
    masks = torch.zeros(n, 40, 40, dtype=torch.long)
    for kind, count, low, high in ((FLUID, 1, 5, 8), (NUCLEUS, 7, 2, 3.5)):
        for _ in range(count):
            place = torch.rand(n, 2, 1, 1, generator=generator) * 40
            radius = torch.rand(n, 1, 1, generator=generator) * (high - low) + low
            distance = ((axis[None, None, :] - place[:, 0]) ** 2 + (axis[None, :, None] - place[:, 1]) ** 2).sqrt()
            if kind == FLUID:
                masks[distance < radius + 2] = WALL
            masks[distance < radius] = kind
    shades = torch.tensor([[0.1, 0.2, 0.1], [0.7, 0.3, 0.4], [0.3, 0.4, 0.8], [0.5, 0.1, 0.6]])
    images = shades[masks].permute(0, 3, 1, 2)
    return images + 0.15 * torch.randn(images.shape, generator=generator), masks


def load(n, generator, size=24):
    images, masks = slides(n, generator)
    small = F.interpolate(images, size=(size, size), mode="bilinear", align_corners=False)
    if FIXED:
        labels = F.interpolate(masks[:, None].float(), size=(size, size), mode="nearest")
    else:
        labels = F.interpolate(masks[:, None].float(), size=(size, size), mode="bilinear", align_corners=False)
    return small, labels[:, 0].round().long(), masks


def iou(predicted, masks):
    scores = []
    for kind in range(4):
        both = ((predicted == kind) & (masks == kind)).sum().item()
        either = ((predicted == kind) | (masks == kind)).sum().item()
        scores.append(both / max(either, 1))
    return scores


def main():
    generator = torch.Generator().manual_seed(0)
    images, labels, _ = load(300, generator)
    val_images, _, val_masks = load(80, generator)
    loader = DataLoader(TensorDataset(images, labels), batch_size=20, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=2, dilation=2),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 4, 1),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(10):
        model.train()
        total = 0.0
        for x, y in loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            logits = F.interpolate(model(val_images), size=(40, 40), mode="bilinear", align_corners=False)
        scores = iou(logits.argmax(1), val_masks)
        if epoch % 3 == 0:
            print(f"epoch {epoch}  train {total / len(loader):.3f}  mean IoU {sum(scores) / 4:.3f}")
    print("background {:.3f}  wall {:.3f}  fluid {:.3f}  nucleus {:.3f}".format(*scores))
    print(f"final mean IoU {sum(scores) / 4:.3f}")


if __name__ == "__main__":
    main()
