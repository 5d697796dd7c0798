"""One object per image: where (smooth absolute error), what (cross entropy) and whether (binary cross entropy)."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 12, 3, 2, 1),
            nn.BatchNorm2d(12),
            nn.ReLU(),
            nn.Conv2d(12, 24, 3, 2, 1),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(24 * 16, 64),
            nn.ReLU(),
        )
        self.box, self.label, self.there = nn.Linear(64, 4), nn.Linear(64, 2), nn.Linear(64, 1)

    def forward(self, x):
        h = self.backbone(x)
        return self.box(h).sigmoid(), self.label(h), self.there(h)[:, 0]


def batch(n=16):
    images, boxes = 0.3 * torch.randn(n, 1, 16, 16), torch.zeros(n, 4)
    labels, there = torch.randint(2, (n,)), (torch.rand(n) < 0.7).float()
    for k in range(n):
        x, y, w, h = (int(torch.randint(*limits, ())) for limits in ((0, 9), (0, 9), (4, 8), (4, 8)))
        boxes[k] = torch.tensor([x, y, w, h]) / 16
        if there[k]:
            images[k, 0, y : y + h, x : x + w] += 1.0 if labels[k] else -1.0
    return images, boxes, labels, there


model = Detector()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
history = []
for step in range(steps):
    images, boxes, labels, there = batch()
    box, label, score = model(images)
    found = there > 0
    loss_box = F.smooth_l1_loss(box[found], boxes[found])
    loss_label = F.cross_entropy(label[found], labels[found])
    loss_there = F.binary_cross_entropy_with_logits(score, there)
    loss = 5 * loss_box + loss_label + loss_there
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss_box.item(), loss_label.item(), loss_there.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
