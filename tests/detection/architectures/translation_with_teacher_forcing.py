"""nn.Transformer with padding masks on both sides, a causal mask, and padding ignored by the loss."""

import math

import torch
from torch import nn

torch.manual_seed(0)
PAD, BOS, EOS, WORDS = 0, 1, 2, 24


class Positional(nn.Module):
    def __init__(self, width, longest=32):
        super().__init__()
        position = torch.arange(longest)[:, None]
        divide = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(longest, width)
        table[:, 0::2], table[:, 1::2] = torch.sin(position * divide), torch.cos(position * divide)
        self.register_buffer("table", table)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(x + self.table[: x.size(1)])


class Translator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.source = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.target = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.positional = Positional(width)
        self.transformer = nn.Transformer(width, 4, 1, 1, 64, 0.1, batch_first=True)
        self.generator = nn.Linear(width, WORDS)
        self.width = width

    def forward(self, source, target):
        hidden = self.transformer(
            self.positional(self.source(source) * math.sqrt(self.width)),
            self.positional(self.target(target) * math.sqrt(self.width)),
            tgt_mask=torch.triu(torch.ones(target.size(1), target.size(1), dtype=torch.bool), 1),
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )
        return self.generator(hidden)


def pairs(size=24, longest=7):
    lengths = torch.randint(2, longest + 1, (size, 1))
    source = torch.randint(3, WORDS, (size, longest)).masked_fill(torch.arange(longest) >= lengths, PAD)
    target = torch.full((size, longest + 2), PAD)
    target[:, 0] = BOS
    target[:, 1:-1] = torch.where(source == PAD, PAD, (source - 3 + 7) % (WORDS - 3) + 3)
    target[torch.arange(size), lengths[:, 0] + 1] = EOS
    return source, target


model = Translator()
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-9)
for step in range(40):
    source, target = pairs()
    logits = model(source, target[:, :-1])
    loss = criterion(logits.reshape(-1, WORDS), target[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
