"""Squeeze-and-excitation with SiLU and stochastic depth; bfloat16 autocast and gradient clipping."""

import torch
from torch import nn

torch.manual_seed(0)


class SqueezeExcitation(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x):
        scale = self.fc2(nn.functional.silu(self.fc1(x.mean((2, 3), keepdim=True))))
        return x * scale.sigmoid()


class MBConv(nn.Module):
    def __init__(self, channels, drop=0.1):
        super().__init__()
        hidden = 3 * channels
        self.block = nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(),
            nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(),
            SqueezeExcitation(hidden),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.drop = drop

    def forward(self, x):
        out = self.block(x)
        if self.training:
            kept = torch.rand(len(x), 1, 1, 1) > self.drop
            out = out * kept / (1 - self.drop)
        return x + out


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.SiLU())
        self.blocks = nn.Sequential(MBConv(16), MBConv(16))
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(16, 4))

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
templates = torch.randn(4, 1, 12, 12)
for step in range(40):
    y = torch.randint(0, 4, (32,))
    x = templates[y] + torch.randn(32, 1, 12, 12)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
