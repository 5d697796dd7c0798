"""A reward model of pairs (Bradley-Terry), with an evaluation of its accuracy."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class RewardModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 24)
        self.encoder = nn.TransformerEncoderLayer(24, 2, 48, 0.1, batch_first=True)
        self.score = nn.Linear(24, 1, bias=False)

    def forward(self, tokens):
        return self.score(self.encoder(self.embed(tokens))[:, -1])[:, 0]


def pairs(n=24):
    a, b = torch.randint(30, (2, n, 10))
    better = ((a < 10).sum(1) > (b < 10).sum(1))[:, None]
    return torch.where(better, a, b), torch.where(better, b, a)


model = RewardModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
history = []
for step in range(steps):
    chosen, rejected = pairs()
    rewards = model(torch.cat([chosen, rejected]))
    loss = -F.logsigmoid(rewards[:24] - rewards[24:]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 49:
        model.eval()
        with torch.no_grad():
            chosen, rejected = pairs(128)
            print(step, "accuracy", (model(chosen) > model(rejected)).float().mean().item())
        model.train()
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
