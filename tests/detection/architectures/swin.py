"""Attention within shifted windows with a relative position bias; windows are moved into the batch axis."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class WindowAttention(nn.Module):
    def __init__(self, width, window, shift, size):
        super().__init__()
        self.window, self.shift, self.heads = window, shift, 2
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, self.heads))
        c = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        relative = c[:, :, None] - c[:, None, :] + window - 1
        self.register_buffer("index", relative[0] * (2 * window - 1) + relative[1])
        region = torch.zeros(1, size, size, 1)
        if shift:
            for i, rows in enumerate((slice(0, -window), slice(-window, -shift), slice(-shift, None))):
                for j, columns in enumerate((slice(0, -window), slice(-window, -shift), slice(-shift, None))):
                    region[:, rows, columns] = 3 * i + j
        ids = self.split(region).squeeze(-1)
        self.register_buffer("mask", (ids[:, None, :] != ids[:, :, None]) * -100.0)

    def split(self, x):
        b, h, w, c = x.shape
        n = self.window
        return x.view(b, h // n, n, w // n, n, c).transpose(2, 3).reshape(-1, n * n, c)

    def forward(self, x):
        b, h, w, c = x.shape
        n = self.window
        y = self.split(torch.roll(x, (-self.shift, -self.shift), (1, 2)))
        q, k, v = self.qkv(y).view(len(y), n * n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index].permute(2, 0, 1)
        mask = bias[None] + self.mask.repeat(b, 1, 1)[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = self.project(y.transpose(1, 2).reshape(-1, n * n, c))
        y = y.view(b, h // n, w // n, n, n, c).transpose(2, 3).reshape(b, h, w, c)
        return torch.roll(y, (self.shift, self.shift), (1, 2))


class SwinBlock(nn.Module):
    def __init__(self, width, window, shift, size):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = WindowAttention(width, window, shift, size)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 24, 2, 2)
        self.blocks = nn.Sequential(SwinBlock(24, 4, 0, 8), SwinBlock(24, 4, 2, 8))
        self.merge = nn.Linear(96, 32)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, x):
        x = self.blocks(self.patch(x).permute(0, 2, 3, 1))
        x = torch.cat([x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]], dim=-1)
        return self.head(self.norm(self.merge(x)).mean((1, 2)))


model = Swin()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
templates = torch.randn(4, 3, 16, 16)
for step in range(40):
    y = torch.randint(0, 4, (16,))
    x = templates[y] + torch.randn(16, 3, 16, 16)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
