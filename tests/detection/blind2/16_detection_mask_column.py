"""A one-shot detector of shapes on a grid of cells, as in YOLO v1."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)

CELLS, CELL, CLASSES = 4, 8, 3
OBJECTNESS = 4  # a cell is x, y, w, h, objectness, then one column for each class


def scenes(n, generator):
    size = CELLS * CELL
    images = 0.1 * torch.randn(n, 1, size, size, generator=generator)
    target = torch.zeros(n, CELLS, CELLS, 5 + CLASSES)
    for i in range(n):
        for cell in torch.randperm(CELLS * CELLS, generator=generator)[:3].tolist():
            row, column = divmod(cell, CELLS)
            kind = int(torch.randint(0, CLASSES, (1,), generator=generator))
            w, h = (torch.randint(4, 8, (2,), generator=generator)).tolist()
            if kind == 0:
                h = w
            left, top = column * CELL + (CELL - w) // 2, row * CELL + (CELL - h) // 2
            patch = images[i, 0, top : top + h, left : left + w]
            patch += (1.0, -1.0, 0.0)[kind]
            if kind == 2:
                patch[::2] += 1.5
            target[i, row, column, :5] = torch.tensor([0.5, 0.5, w / CELL, h / CELL, 1.0])
            target[i, row, column, 5 + kind] = 1.0
    return images, target.flatten(1, 2)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 5 + CLASSES, 1),
        )

    def forward(self, x):
        return torch.sigmoid(self.net(x)).flatten(2).transpose(1, 2)


def detection_loss(predicted, target):
    column = OBJECTNESS if FIXED else OBJECTNESS + 1
    coord_mask = target[:, :, column] > 0
    noobj_mask = target[:, :, column] == 0
    box = F.mse_loss(predicted[coord_mask][:, :4], target[coord_mask][:, :4], reduction="sum")
    found = F.mse_loss(predicted[coord_mask][:, 4], torch.ones_like(predicted[coord_mask][:, 4]), reduction="sum")
    empty = F.mse_loss(predicted[noobj_mask][:, 4], torch.zeros_like(predicted[noobj_mask][:, 4]), reduction="sum")
    kinds = F.mse_loss(predicted[coord_mask][:, 5:], target[coord_mask][:, 5:], reduction="sum")
    return (5 * box + found + 0.5 * empty + kinds) / len(predicted)


def f1(predicted, target):
    shown = predicted[:, :, 4] > 0.5
    real = target[:, :, 4] > 0
    same = predicted[:, :, 5:].argmax(-1) == target[:, :, 5:].argmax(-1)
    close = (predicted[:, :, 2:4] - target[:, :, 2:4]).abs().amax(-1) < 0.2
    hits = (shown & real & same & close).sum().item()
    return 2 * hits / max(shown.sum().item() + real.sum().item(), 1)


def main():
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(*scenes(800, generator)), batch_size=32, shuffle=True)
    val_x, val_y = scenes(200, generator)
    model = Detector()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(8):
        model.train()
        total = 0.0
        for x, y in loader:
            loss = detection_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            predicted = model(val_x)
            val_loss = detection_loss(predicted, val_y).item()
        print(f"epoch {epoch}  train {total / len(loader):.3f}  val {val_loss:.3f}  F1 {f1(predicted, val_y):.3f}")
    print(f"final F1 {f1(predicted, val_y):.3f}")


if __name__ == "__main__":
    main()
