"""A small transformer that counts, resumed after its warm-up.

Mistake: the schedule is made after the optimizer's state was loaded, and its own state is not.
"""

import io

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

WARM_UP = 100


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.out = nn.Linear(16, 3)

    def forward(self, tokens):
        return self.out(self.layer(self.embed(tokens)).mean(dim=1))


def schedule_of(optimizer):
    return LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARM_UP))


def train(model, optimizer, scheduler, epochs):
    for _ in range(epochs):
        for rows in torch.randperm(1280).split(32):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(tokens[rows]), sevens[rows])
            loss.backward()
            optimizer.step()
            scheduler.step()
        print(loss.item(), scheduler.get_last_lr())


tokens = torch.randint(10, (1280, 12))
sevens = (tokens == 7).sum(dim=1).clamp(max=2)
model = Counter()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
scheduler = schedule_of(optimizer)
train(model, optimizer, scheduler, 3)
file = io.BytesIO()
states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
torch.save(states, file)

file.seek(0)
states = torch.load(file)
model = Counter()
model.load_state_dict(states["model"])
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
# repaired: scheduler = schedule_of(optimizer)
optimizer.load_state_dict(states["optimizer"])
# repaired: scheduler.load_state_dict(states["scheduler"])
scheduler = schedule_of(optimizer)  # mistake
train(model, optimizer, scheduler, 3)
