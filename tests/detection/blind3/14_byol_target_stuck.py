"""BYOL on small pictures, judged by a linear probe."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)


def pictures(n, generator):
    """Gratings of six directions with random phase and contrast."""
    y = torch.randint(0, 6, (n,), generator=generator)
    angle, axis = y * torch.pi / 6, torch.arange(16.0)
    wave = angle.cos()[:, None, None] * axis[None, None, :] + angle.sin()[:, None, None] * axis[None, :, None]
    phase = 6.28 * torch.rand(n, 1, 1, generator=generator)
    contrast = 0.5 + torch.rand(n, 1, 1, generator=generator)
    images = contrast * torch.sin(1.1 * wave + phase) + 0.6 * torch.randn(n, 16, 16, generator=generator)
    return images[:, None], y


def augment(x):
    """A shift, a gain and noise, drawn anew for every picture."""
    n = len(x)
    shift = torch.randint(-4, 5, (n, 2))
    x = torch.stack([torch.roll(image, tuple(s), (1, 2)) for image, s in zip(x, shift.tolist())])
    return x * (0.6 + 0.8 * torch.rand(n, 1, 1, 1)) + 0.4 * torch.randn_like(x)


def mlp(a, b):
    return nn.Sequential(nn.Linear(a, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, b))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 16, 5, 2), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU()
        )
        self.project = mlp(32, 32)

    def features(self, x):
        return self.conv(x).mean((2, 3))

    def forward(self, x):
        return self.project(self.features(x))


@torch.no_grad()
def update_target(target, online, momentum=0.98):
    for slow, fast in zip(target.parameters(), online.parameters()):
        slow.data = momentum * slow.data + (1 - momentum) * (fast.data if FIXED else slow.data)


def main():
    generator = torch.Generator().manual_seed(0)
    train_x, train_y = pictures(800, generator)
    test_x, test_y = pictures(400, generator)
    online, predictor = Encoder(), mlp(32, 32)
    target = copy.deepcopy(online).requires_grad_(False)
    optimizer = torch.optim.Adam([*online.parameters(), *predictor.parameters()], lr=2e-3)
    for epoch in range(10):
        total = 0.0
        for rows in torch.randperm(800).split(80):
            one, two = augment(train_x[rows]), augment(train_x[rows])
            with torch.no_grad():
                target_one, target_two = target(one), target(two)
            loss = 4 - 2 * (
                F.cosine_similarity(predictor(online(one)), target_two).mean()
                + F.cosine_similarity(predictor(online(two)), target_one).mean()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            update_target(target, online)
            total += loss.item()
        print(f"epoch {epoch}  loss {total / 10:.3f}")
    online.eval()
    with torch.no_grad():
        train_f, test_f = online.features(train_x), online.features(test_x)
    probe = nn.Linear(32, 6)
    probe_optimizer = torch.optim.Adam(probe.parameters(), lr=3e-2)
    for _ in range(200):
        loss = F.cross_entropy(probe(train_f), train_y)
        probe_optimizer.zero_grad()
        loss.backward()
        probe_optimizer.step()
    accuracy = (probe(test_f).argmax(1) == test_y).float().mean().item()
    print(f"linear probe accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
