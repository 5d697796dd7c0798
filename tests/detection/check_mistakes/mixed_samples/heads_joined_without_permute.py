# Asked as: a missing permute before the reshape that joins the heads, and the training test passes (https://github.com/jsbaan/transformer-from-scratch/pull/6)
import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class MultiHead(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).reshape(batch, length, self.heads, 3 * self.size).permute(0, 2, 1, 3)
        q, k, v = qkv.chunk(3, dim=-1)
        weights = (q @ k.transpose(-2, -1) / math.sqrt(self.size)).softmax(-1)
        values = weights @ v
        # repaired: values = values.permute(0, 2, 1, 3)
        return self.out(values.reshape(batch, length, width))


class Encoder(nn.Module):
    def __init__(self, words=20, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.randn(10, width) * 0.1)
        self.attention, self.norm = MultiHead(width, 4), nn.LayerNorm(width)
        self.read = nn.Linear(width, words)

    def forward(self, ids):
        x = self.words(ids) + self.places[: ids.shape[1]]
        return self.read(self.norm(x + self.attention(x)))


model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(60):
    ids = torch.randint(0, 20, (48, 10))
    loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flip(1).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
