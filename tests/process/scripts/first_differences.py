"""A small language model, trained alike in several runs but for one thing each, by name; arguments: the names."""

import sys

import torch
from torch import nn
from watched_runs import captured, prepared

TEXT = "the model reads a line and writes the line again " * 40


def words(text):
    known = {word: number for number, word in enumerate(dict.fromkeys(text.split()))}
    return [known[word] for word in text.split()]


def letters(text):
    known = {letter: number for number, letter in enumerate(sorted(set(text)))}
    return [known[letter] for letter in text]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.reader = nn.GRU(16, 16, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(16, 32)

    def forward(self, tokens):
        return self.head(self.dropout(self.reader(self.embedding(tokens))[0]))


def train(kind):
    torch.manual_seed(1 if kind == "seed" else 0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3 if kind == "rate" else 1e-3)
    tokens = torch.tensor((letters if kind == "tokenizer" else words)(TEXT)[:320]).view(-1, 8)
    torch.manual_seed(1 if kind == "dropout" else 0)
    for step in range(8):
        batch = tokens[step * 4 :][:4]
        if kind == "order" and step >= 2:
            batch = batch.flip(0)
        optimizer.zero_grad()
        scores = model(batch)[:, :-1].flatten(0, 1)
        loss = nn.functional.cross_entropy(scores, batch[:, 1:].flatten())
        loss.backward()
        if kind == "clipped" and step >= 3:
            nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()


for name in sys.argv[1:]:
    with captured(prepared([], "first_differences.py", name)):
        train(name)
