"""A language model with top-two routing and a loss that balances the experts."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class SparseExperts(nn.Module):
    def __init__(self, width, experts=4, top=2):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(experts)
        )
        self.top = top

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        chances = self.router(flat).softmax(-1)
        weights, chosen = chances.topk(self.top)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            token, slot = (chosen == i).nonzero(as_tuple=True)
            out = out.index_add(0, token, weights[token, slot, None] * expert(flat[token]))
        share = F.one_hot(chosen[:, 0], len(self.experts)).float().mean(0)
        return out.view_as(x), len(self.experts) * (share * chances.mean(0)).sum()


class Model(nn.Module):
    def __init__(self, words=24, width=32):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(words, width), nn.GRU(width, width, batch_first=True)
        self.norm, self.moe, self.head = nn.LayerNorm(width), SparseExperts(width), nn.Linear(width, words)

    def forward(self, x):
        h, _ = self.rnn(self.embed(x))
        y, balance = self.moe(self.norm(h))
        return self.head(h + y), balance


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(40):
    text = (torch.randint(0, 24, (16, 1)) + torch.randint(1, 4, (16, 1)) * torch.arange(11)) % 24
    logits, balance = model(text[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, 24), text[:, 1:].reshape(-1)) + 0.01 * balance
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
