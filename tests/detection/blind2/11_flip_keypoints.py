"""Keypoints of a face seen from the front: eyes, ears, nose and the corners of the mouth."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)

NAMES = ["nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_mouth", "right_mouth"]
FACE = torch.tensor([[0, 0.5], [-3, -2], [3, -2], [-6, 0], [6, 0], [-2, 4], [2, 4]], dtype=torch.float32)
PAIRS = [(1, 2), (3, 4), (5, 6)]
SIZE = 24


def faces(n, generator):
    scale = torch.rand(n, 1, 1, generator=generator) * 0.5 + 0.6
    shift = torch.rand(n, 1, 2, generator=generator) * 6 + 9
    points = FACE * scale + shift + 0.3 * torch.randn(n, 7, 2, generator=generator)
    axis = torch.arange(float(SIZE))
    dx = axis[None, None, None, :] - points[:, :, 0, None, None]
    dy = axis[None, None, :, None] - points[:, :, 1, None, None]
    images = torch.exp(-(dx**2 + dy**2) / 2.0).amax(1, keepdim=True)
    return images + 0.1 * torch.randn(images.shape, generator=generator), points


class Faces(Dataset):
    def __init__(self, images, points, augment):
        self.images, self.points, self.augment = images, points, augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image, points = self.images[index], self.points[index].clone()
        if self.augment and torch.rand(1).item() < 0.5:
            image = image.flip(-1)
            points[:, 0] = SIZE - 1 - points[:, 0]
            if FIXED:
                for left, right in PAIRS:
                    points[[left, right]] = points[[right, left]]
        return image, points / SIZE


def main():
    generator = torch.Generator().manual_seed(0)
    train = DataLoader(Faces(*faces(2000, generator), augment=True), batch_size=64, shuffle=True)
    val = DataLoader(Faces(*faces(400, generator), augment=False), batch_size=200)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 36, 64),
        nn.ReLU(),
        nn.Linear(64, 14),
        nn.Unflatten(1, (7, 2)),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(8):
        model.train()
        total = 0.0
        for images, points in train:
            loss = F.smooth_l1_loss(model(images), points, beta=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            error = torch.cat([(model(x) - p).norm(dim=-1) for x, p in val]).mean(0) * SIZE
        print(f"epoch {epoch}  train {total / len(train):.4f}  val error {error.mean():.2f} pixels")
    for name, value in zip(NAMES, error.tolist(), strict=True):
        print(f"  {name:12s} {value:.2f}")
    print(f"final val error {error.mean():.2f} pixels")


if __name__ == "__main__":
    main()
