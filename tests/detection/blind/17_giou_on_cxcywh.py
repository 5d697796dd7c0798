"""Single-object detector, L1 + generalized IoU loss (DETR style boxes in cxcywh)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(0)


def box_cxcywh_to_xyxy(b):
    c, wh = b[:, :2], b[:, 2:]
    return torch.cat([c - wh / 2, c + wh / 2], 1)


def generalized_iou(a, b):
    """a, b: (N, 4) boxes, pairwise along N."""
    lt, rb = torch.max(a[:, :2], b[:, :2]), torch.min(a[:, 2:], b[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(1)
    area = lambda x: (x[:, 2:] - x[:, :2]).clamp(min=0).prod(1)
    union = area(a) + area(b) - inter + 1e-6
    iou = inter / union
    hull = (torch.max(a[:, 2:], b[:, 2:]) - torch.min(a[:, :2], b[:, :2])).clamp(min=0).prod(1) + 1e-6
    return iou, iou - (hull - union) / hull


def sample(n, S=20):
    wh = 0.2 + 0.4 * torch.rand(n, 2)
    c = wh / 2 + torch.rand(n, 2) * (1 - wh)
    box = torch.cat([c, wh], 1)
    x = 0.3 * torch.randn(n, 1, S, S)
    q = (box_cxcywh_to_xyxy(box) * S).round().int()
    for i in range(n):
        x[i, 0, q[i, 1] : q[i, 3], q[i, 0] : q[i, 2]] += 1
    return x, box


model = nn.Sequential(
    nn.Conv2d(1, 16, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Conv2d(16, 16, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(16 * 25, 64),
    nn.ReLU(),
    nn.Linear(64, 4),
    nn.Sigmoid(),
)
opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
xv, bv = sample(400)
for step in range(1, 401):
    x, box = sample(32)
    pred = model(x)
    iou, giou = generalized_iou(pred, box)  # mistake
    # repaired: iou, giou = generalized_iou(box_cxcywh_to_xyxy(pred), box_cxcywh_to_xyxy(box))
    loss_bbox = F.l1_loss(pred, box)
    loss_giou = (1 - giou).mean()
    loss = 0.5 * loss_bbox + 2 * loss_giou
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        with torch.no_grad():
            p = model(xv)
            v, _ = generalized_iou(box_cxcywh_to_xyxy(p), box_cxcywh_to_xyxy(bv))
        print(
            f"step {step} loss {loss.item():.4f} (l1 {loss_bbox.item():.4f} giou {loss_giou.item():.4f}) val IoU {v.mean():.4f} AP50 {(v > 0.5).float().mean():.3f}"
        )
