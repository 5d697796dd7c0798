"""A causal transformer; the learning rate rises from exactly 0, then follows a cosine; tied embeddings."""

import math
import sys

import torch
from torch import nn
from torch.nn import functional as F

steps = int(sys.argv[1])


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, mask):
        h = self.ln1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class LM(nn.Module):
    def __init__(self, vocabulary=20, d=32, length=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, d), nn.Embedding(length, d)
        self.blocks = nn.ModuleList(Block(d) for _ in range(2))
        self.ln = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocabulary, bias=False)
        self.head.weight = self.wte.weight
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, tokens):
        n = tokens.shape[1]
        mask = torch.full((n, n), float("-inf")).triu(1)
        x = self.wte(tokens) + self.wpe(torch.arange(n))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.ln(x))


model = LM()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1)
warm_up = max(10, steps // 10)


def factor(step):
    if step < warm_up:
        return step / warm_up
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))


scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
for step in range(steps):
    first, stride = torch.randint(20, (16, 1)), torch.randint(1, 4, (16, 1))
    text = (first + stride * torch.arange(13)) % 20
    loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    if step % 50 == 0:
        print(step, loss.item())
