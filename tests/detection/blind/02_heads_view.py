"""Small hand-written transformer: mark the tokens that occur more than once in the sequence."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(1)
V, T, D, H = 16, 12, 32, 4


def batch(n):
    x = torch.randint(1, V, (n, T))
    same = x[:, :, None] == x[:, None, :]
    return x, (same.sum(-1) > 1).long()


class MultiHeadAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.dk = h, d // h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        B, T, D = x.shape
        q = self.q(x).view(B, self.h, T, self.dk)  # mistake
        k = self.k(x).view(B, self.h, T, self.dk)  # mistake
        v = self.v(x).view(B, self.h, T, self.dk)  # mistake
        # repaired: q = self.q(x).view(B, T, self.h, self.dk).transpose(1, 2)
        # repaired: k = self.k(x).view(B, T, self.h, self.dk).transpose(1, 2)
        # repaired: v = self.v(x).view(B, T, self.h, self.dk).transpose(1, 2)
        a = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(self.dk), dim=-1)
        y = (a @ v).transpose(1, 2).reshape(B, T, D)
        return self.o(y)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.att = MultiHeadAttention(D, H)
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.ff = nn.Sequential(nn.Linear(D, 64), nn.GELU(), nn.Linear(64, D))

    def forward(self, x):
        x = x + self.att(self.ln1(x))
        return x + self.ff(self.ln2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Embedding(T, D)
        self.blocks = nn.Sequential(Block(), Block())
        self.out = nn.Linear(D, 2)

    def forward(self, x):
        h = self.tok(x) + self.pos(torch.arange(T))
        return self.out(self.blocks(h))


model = Model()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
val_x, val_y = batch(512)
for step in range(1, 451):
    x, y = batch(64)
    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        with torch.no_grad():
            acc = (model(val_x).argmax(-1) == val_y).float().mean()
        print(f"step {step} loss {loss.item():.3f} val token acc {acc:.3f}", flush=True)
