"""A one-object detector on photos of many sizes, all resized to one size."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
SIZE = 32


class Photos(Dataset):
    """Photos of different sizes with a bright rectangle, its box in pixels and its class."""

    def __init__(self, n, seed):
        generator = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n):
            height, width = torch.randint(28, 72, (2,), generator=generator).tolist()
            image = 0.5 * torch.randn(1, height, width, generator=generator)
            h = int(height * (0.25 + 0.3 * torch.rand((), generator=generator)))
            w = int(width * (0.25 + 0.3 * torch.rand((), generator=generator)))
            top = torch.randint(0, height - h, (), generator=generator).item()
            left = torch.randint(0, width - w, (), generator=generator).item()
            kind = torch.randint(0, 2, (), generator=generator).item()
            image[:, top : top + h, left : left + w] += 2.0 if kind else -2.0
            self.items.append((image, torch.tensor([left, top, left + w, top + h]).float(), kind))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        image, box, kind = self.items[index]
        height, width = image.shape[1:]
        resized = F.interpolate(image[None], (SIZE, SIZE), mode="bilinear", align_corners=False)[0]
        if FIXED:
            box = box * torch.tensor([SIZE / width, SIZE / height, SIZE / width, SIZE / height])
        return resized, box / SIZE, kind


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, 1), nn.ReLU(), nn.Conv2d(24, 24, 3, 2, 1)
        )
        self.hidden = nn.Linear(24 * 16, 64)
        self.box, self.kind = nn.Linear(64, 4), nn.Linear(64, 2)

    def forward(self, x):
        x = F.relu(self.hidden(F.relu(self.features(x)).flatten(1)))
        return self.box(x), self.kind(x)


def iou(a, b):
    low, high = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    overlap = (high - low).clamp(min=0).prod(1)
    area = (a[:, 2:] - a[:, :2]).clamp(min=0).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - overlap
    return overlap / area


def main():
    loader = DataLoader(Photos(800, 0), batch_size=32, shuffle=True)
    test = DataLoader(Photos(200, 1), batch_size=200)
    model = Detector()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(15):
        model.train()
        boxes = kinds = 0.0
        for image, box, kind in loader:
            box_out, kind_out = model(image)
            box_loss, kind_loss = F.smooth_l1_loss(box_out, box, beta=0.1), F.cross_entropy(kind_out, kind)
            optimizer.zero_grad()
            (10 * box_loss + kind_loss).backward()
            optimizer.step()
            boxes, kinds = boxes + box_loss.item(), kinds + kind_loss.item()
        model.eval()
        with torch.no_grad():
            image, box, kind = next(iter(test))
            box_out, kind_out = model(image)
        if epoch % 3 == 2:
            print(
                f"epoch {epoch}  box {boxes / len(loader):.4f}  class {kinds / len(loader):.3f}"
                f"  val IoU {iou(box_out, box).mean().item():.3f}"
                f"  acc {(kind_out.argmax(1) == kind).float().mean().item():.3f}"
            )


if __name__ == "__main__":
    main()
