"""SimCLR on small drawings; a linear probe tells what the features are worth."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)


def drawings(n, generator):
    """Four kinds of shapes at random places."""
    kind = torch.randint(0, 4, (n,), generator=generator)
    place = torch.rand(n, 2, generator=generator) * 8 + 4
    size = torch.rand(n, generator=generator) * 1.5 + 2.5
    axis = torch.arange(16.0)
    dx = axis[None, None, :] - place[:, 0, None, None]
    dy = axis[None, :, None] - place[:, 1, None, None]
    s = size[:, None, None]
    disc = (dx**2 + dy**2 < s**2).float()
    ring = disc - (dx**2 + dy**2 < (s - 1.4) ** 2).float()
    square = ((dx.abs() < s) & (dy.abs() < s)).float()
    cross = ((dx.abs() < 1) | (dy.abs() < 1)).float() * (dx.abs() < s) * (dy.abs() < s)
    images = torch.stack([disc, ring, square, cross])[kind, torch.arange(n)]
    return images[:, None], kind


def augment(images):
    shift = torch.randint(-3, 4, (2,)).tolist()
    moved = torch.roll(images, shift, dims=(2, 3))
    strength = torch.rand(len(images), 1, 1, 1) * 0.8 + 0.6
    return moved * strength + 0.15 * torch.randn_like(images)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, stride=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, stride=2),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(128, 32),
        )
        self.projector = nn.Sequential(nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x):
        return self.projector(self.features(x))


def nt_xent(a, b, temperature=0.1):
    z = F.normalize(torch.cat([a, b]), dim=1)
    similarity = z @ z.T / temperature
    if FIXED:
        similarity = similarity.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    partner = torch.arange(len(z)).roll(len(a))
    return F.cross_entropy(similarity, partner)


def probe(encoder, train, test):
    encoder.eval()
    with torch.no_grad():
        x, test_x = encoder.features(train[0]), encoder.features(test[0])
    mean, std = x.mean(0), x.std(0) + 1e-6
    head = nn.Linear(32, 4)
    optimizer = torch.optim.LBFGS(head.parameters(), max_iter=50)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(head((x - mean) / std), train[1])
        loss.backward()
        return loss

    optimizer.step(closure)
    return (head((test_x - mean) / std).argmax(1) == test[1]).float().mean().item()


def main():
    generator = torch.Generator().manual_seed(0)
    images, labels = drawings(1500, generator)
    test = drawings(600, generator)
    encoder = Encoder()
    optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)
    for step in range(250):
        batch = images[torch.randint(0, len(images), (96,))]
        loss = nt_xent(encoder(augment(batch)), encoder(augment(batch)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}  loss {loss.item():.3f}")
    accuracy = probe(encoder, (images[:300], labels[:300]), test)
    print(f"final loss {loss.item():.3f}  linear probe acc {accuracy:.3f}")


if __name__ == "__main__":
    main()
