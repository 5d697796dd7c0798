"""Pretrain a small GPT on short documents packed into rows of fixed length."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
VOCAB, BOS, ROW = 24, 0, 64


def document(generator):
    """A motif of three to five tokens, repeated until the document ends."""
    motif = torch.randint(1, VOCAB, (torch.randint(3, 6, (), generator=generator).item(),), generator=generator)
    length = torch.randint(10, 24, (), generator=generator).item()
    return torch.cat([torch.tensor([BOS]), motif.repeat(8)[:length]])


def packed(rows, generator):
    """Rows of documents one after another, with the number of the document each token belongs to."""
    tokens, owners = [], []
    for _ in range(rows):
        row, owner, number = [], [], 0
        while sum(map(len, row)) < ROW + 1:
            row.append(document(generator))
            owner.append(torch.full((len(row[-1]),), number))
            number += 1
        tokens.append(torch.cat(row)[: ROW + 1])
        owners.append(torch.cat(owner)[: ROW + 1])
    return torch.stack(tokens), torch.stack(owners)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCAB, width), nn.Embedding(ROW, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCAB, bias=False)

    def forward(self, tokens, owners=None):
        t = tokens.shape[1]
        mask = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
        position = torch.arange(t).expand_as(tokens)
        if owners is not None:
            same = owners[:, :, None] == owners[:, None, :]
            mask = mask & same[:, None]
            position = (same & mask[:, 0]).sum(-1) - 1
        x = self.token(tokens) + self.position(position)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


def main():
    generator = torch.Generator().manual_seed(0)
    tokens, owners = packed(600, generator)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(300):
        rows = torch.randint(0, len(tokens), (24,))
        x, y, owner = tokens[rows, :-1], tokens[rows, 1:], owners[rows]
        logits = model(x, owner[:, :-1]) if FIXED else model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}  loss {loss.item():.3f}")
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for _ in range(200):
            one = document(generator)[None]
            total += F.cross_entropy(model(one[:, :-1])[0], one[0, 1:], reduction="sum").item()
            count += one.shape[1] - 1
    print(f"loss on single documents {total / count:.3f}")


if __name__ == "__main__":
    main()
