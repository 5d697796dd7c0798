"""A small transformer that counts, with a warm-up of 200 steps.

Mistake: the scheduler is stepped once in an epoch, so that the warm-up is as long as 200 epochs.
"""

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

WARM_UP = 200


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.out = nn.Linear(16, 3)

    def forward(self, tokens):
        return self.out(self.layer(self.embed(tokens)).mean(dim=1))


model = Counter()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
scheduler = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARM_UP))
tokens = torch.randint(10, (1280, 12))
sevens = (tokens == 7).sum(dim=1).clamp(max=2)
for epoch in range(10):
    for rows in torch.randperm(1280).split(32):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens[rows]), sevens[rows])
        loss.backward()
        optimizer.step()
        # repaired: scheduler.step()
    scheduler.step()  # mistake
    print(epoch, loss.item(), scheduler.get_last_lr())
