"""Gradients accumulated over batches of unequal length: sums of losses, divided by the tokens of all of them."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
VOCABULARY = 16


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 24)
        self.lstm = nn.LSTM(24, 32, batch_first=True)
        self.out = nn.Linear(32, VOCABULARY)

    def forward(self, tokens):
        return self.out(self.lstm(self.embedding(tokens))[0])


def batch():
    lengths = torch.randint(4, 20, (8,))
    tokens = (torch.randint(VOCABULARY, (8, 1)) + 3 * torch.arange(21)) % VOCABULARY
    labels = tokens[:, 1:].clone()
    labels[torch.arange(20) >= lengths[:, None]] = -100
    return tokens[:, :-1], labels


model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
history = []
for step in range(steps):
    batches = [batch() for _ in range(4)]
    tokens_in_step = sum((labels != -100).sum() for _, labels in batches)
    total = 0.0
    for tokens, labels in batches:
        logits = model(tokens)
        loss = F.cross_entropy(logits.view(-1, VOCABULARY), labels.reshape(-1), ignore_index=-100, reduction="sum")
        loss = loss / tokens_in_step
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    history.append(total)
    if step % 25 == 0:
        print(step, total)
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
