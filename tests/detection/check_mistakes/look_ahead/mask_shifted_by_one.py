# Asked as: training loss far below validation perplexity of generated text, is my diagonal right? (StackOverflow)
import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Head(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.register_buffer("mask", torch.tril(torch.ones(size, size), diagonal=1))  # mistake
        # repaired: self.register_buffer("mask", torch.tril(torch.ones(size, size)))

    def forward(self, x):
        length = x.size(1)
        scores = self.query(x) @ self.key(x).transpose(-2, -1) / math.sqrt(x.size(-1))
        scores = scores.masked_fill(self.mask[:length, :length] == 0, float("-inf"))
        return scores.softmax(-1) @ self.value(x)


class Model(nn.Module):
    def __init__(self, words=30, width=32, length=10):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(length, width)
        self.head1, self.head2 = Head(width, length), Head(width, length)
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, words)

    def forward(self, x):
        h = self.wte(x) + self.wpe(torch.arange(x.size(1)))
        h = h + self.head1(h)
        h = h + self.head2(h)
        return self.lm_head(self.norm(h))


corpus = torch.cat([(torch.arange(6) * 5 + torch.randint(0, 30, (1,))) % 30 for _ in range(400)])
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
for step in range(60):
    starts = torch.randint(0, len(corpus) - 11, (24, 1))
    window = corpus[starts + torch.arange(11)]
    logits = model(window[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, 30), window[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"{step:3d} {loss.item():.4f}")
