"""Anchors with focal loss for classes and smooth L1 for the boxes of positive ones; a list of targets per image."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
GRID, CLASSES = 6, 2


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(16, 24, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(24, 24, 3, 1, 1),
            nn.ReLU(),
        )
        self.classes, self.boxes = nn.Conv2d(24, CLASSES, 1), nn.Conv2d(24, 4, 1)
        nn.init.constant_(self.classes.bias, -2.0)

    def forward(self, images, targets):
        h = self.backbone(images)
        logits, boxes = self.classes(h), self.boxes(h)
        wanted, regression = torch.zeros_like(logits), torch.zeros_like(boxes)
        positive = torch.zeros(len(images), GRID, GRID, dtype=torch.bool)
        for i, target in enumerate(targets):
            for box, label in zip(target["boxes"], target["labels"]):
                column, row = (box[:2] * GRID).long().tolist()
                wanted[i, label, row, column] = 1.0
                regression[i, :, row, column] = box
                positive[i, row, column] = True
        p = logits.sigmoid()
        weight = torch.where(wanted == 1, 0.25 * (1 - p) ** 2, 0.75 * p**2)
        bce = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        found = positive[:, None].expand_as(boxes)
        number = positive.sum().clamp(min=1)
        return {
            "classification": (weight * bce).sum() / number,
            "box": F.smooth_l1_loss(boxes[found], regression[found], reduction="sum") / number,
        }


def scenes(size=8):
    images, targets = 0.2 * torch.randn(size, 1, 24, 24), []
    for image in images:
        number = int(torch.randint(1, 4, (1,)))
        boxes = torch.cat([0.2 + 0.6 * torch.rand(number, 2), 0.1 + 0.15 * torch.rand(number, 2)], dim=1)
        labels = torch.randint(0, CLASSES, (number,))
        for (x, y, w, h), label in zip((24 * boxes).round().int().tolist(), labels.tolist()):
            image[0, max(y - h, 0) : y + h, max(x - w, 0) : x + w] += 1.0 + label
        targets.append({"boxes": boxes, "labels": labels})
    return images, targets


model = Detector()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
for step in range(40):
    images, targets = scenes()
    losses = model(images, targets)
    loss = sum(losses.values())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    if step % 10 == 0:
        print(step, {name: value.item() for name, value in losses.items()})
