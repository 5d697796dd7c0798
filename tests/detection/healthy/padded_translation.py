"""A sequence-to-sequence model with teacher forcing; padding is ignored by the loss, and words are of uneven use."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
PAD = 0


class Seq2Seq(nn.Module):
    def __init__(self, words=16):
        super().__init__()
        self.source = nn.Embedding(words, 24, padding_idx=PAD)
        self.target = nn.Embedding(words, 24, padding_idx=PAD)
        self.encoder = nn.GRU(24, 32, batch_first=True)
        self.decoder = nn.GRU(24, 32, batch_first=True)
        self.out = nn.Linear(32, words)

    def forward(self, source, target):
        _, hidden = self.encoder(self.source(source))
        return self.out(self.decoder(self.target(target), hidden)[0])


model = Seq2Seq()
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
shares = 1 / torch.arange(1.0, 15.0)
for step in range(steps):
    source = 2 + torch.multinomial(shares, 24 * 6, replacement=True).view(24, 6)
    length = torch.randint(2, 7, (24, 1))
    source = torch.where(torch.arange(6) < length, source, PAD)
    start = torch.ones(24, 1, dtype=torch.long)
    answer = torch.where(source == PAD, PAD, (source + 1).clamp(max=15))
    logits = model(source, torch.cat([start, answer[:, :-1]], dim=1))
    loss = criterion(logits.reshape(-1, 16), answer.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
