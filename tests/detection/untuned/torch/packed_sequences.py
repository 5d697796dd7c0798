"""Documents packed into rows, with a mask that keeps them apart; the prompt of each is not a label."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
V, LENGTH, WIDTH = 24, 32, 32


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).unflatten(2, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))


class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.attn, self.n1, self.n2 = Attention(), nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 96), nn.SiLU(), nn.Linear(96, WIDTH))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, V, bias=False)

    def forward(self, tokens, positions, mask):
        x = self.tok(tokens) + self.pos(positions)
        x = x + self.attn(self.n1(x), mask)
        return self.head(self.norm(x + self.mlp(self.n2(x))))


def row():
    tokens, labels, positions, document, k = [], [], [], [], 0
    while len(tokens) < LENGTH:
        n, start = int(torch.randint(6, 13, ())), int(torch.randint(V, ()))
        words = [(start + 5 * t) % V for t in range(n + 1)]
        tokens += words[:-1]
        labels += [-100, -100, *words[3:]]
        positions += range(n)
        document += [k] * n
        k += 1
    return [part[:LENGTH] for part in (tokens, labels, positions, document)]


model = Packed()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
history = []
for step in range(steps):
    tokens, labels, positions, document = (torch.tensor(part) for part in zip(*(row() for _ in range(8))))
    mask = (document[:, :, None] == document[:, None]) & torch.ones(LENGTH, LENGTH).tril().bool()
    logits = model(tokens, positions, mask[:, None])
    loss = nn.CrossEntropyLoss()(logits.flatten(0, 1), labels.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 25 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
