"""Patches, a class token, learned positions, pre-norm blocks; warm-up and cosine decay."""

import math

import torch
from torch import nn

torch.manual_seed(0)


class ViT(nn.Module):
    def __init__(self, size=12, patch=4, width=32, classes=4):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 64, 0.1, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.position
        return self.head(self.norm(self.encoder(x)[:, 0]))


model = ViT()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
steps = 50
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda s: min((s + 1) / 5, 0.5 * (1 + math.cos(math.pi * s / steps)))
)
templates = torch.randn(4, 3, 12, 12)
for step in range(steps):
    y = torch.randint(0, 4, (32,))
    x = templates[y] + torch.randn(32, 3, 12, 12)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 10 == 0:
        print(step, loss.item())
