"""DPO after supervised training: the loss starts at ln 2, against a frozen copy of the policy."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
V = 12


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(V, 24), nn.GRU(24, 48, batch_first=True), nn.Linear(48, V)

    def forward(self, tokens):
        return self.head(self.rnn(self.embed(tokens))[0])


def log_probability(model, tokens):
    logits = model(tokens[:, :-1]).log_softmax(-1)
    return logits.gather(2, tokens[:, 1:, None])[..., 0].sum(1)


policy = LM()
optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-3)
for step in range(steps // 2):
    stride = torch.randint(1, 3, (16, 1))
    tokens = (torch.randint(V, (16, 1)) + stride * torch.arange(8)) % V
    loss = F.cross_entropy(policy(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
reference = copy.deepcopy(policy).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-4)
history, beta = [], 0.1
for step in range(steps):
    start = torch.randint(V, (16, 1))
    chosen, rejected = ((start + stride * torch.arange(8)) % V for stride in (2, 1))
    with torch.no_grad():
        ref_chosen, ref_rejected = log_probability(reference, chosen), log_probability(reference, rejected)
    margin = log_probability(policy, chosen) - ref_chosen - log_probability(policy, rejected) + ref_rejected
    loss = -F.logsigmoid(beta * margin).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 25 == 0:
        print(step, loss.item(), "accuracy", (margin > 0).float().mean().item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
