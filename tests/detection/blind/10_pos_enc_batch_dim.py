"""Transformer encoder (nn.TransformerEncoder) that must say which half holds the larger sum."""

import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.0, max_len=500):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div)
        pe[:, 0, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        x = x + self.pe[: x.size(0)]  # mistake
        # repaired: x = x + self.pe[: x.size(1)].transpose(0, 1)
        return self.dropout(x)


class SeqClassifier(nn.Module):
    def __init__(self, vocab=10, d=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.pos = PositionalEncoding(d)
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(d, 2)

    def forward(self, x):
        return self.head(self.enc(self.pos(self.emb(x))).mean(1))


def data(n):
    x = torch.randint(0, 10, (n, 16))
    return x, (x[:, :8].sum(1) > x[:, 8:].sum(1)).long()


train = DataLoader(TensorDataset(*data(4000)), batch_size=80, shuffle=True)
xv, yv = data(800)
model = SeqClassifier()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(6):
    model.train()
    total = 0.0
    for x, y in train:
        opt.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        opt.step()
        total += loss.item()
    model.eval()
    with torch.no_grad():
        pred = torch.cat([model(c).argmax(1) for c in xv.split(80)])
    print(f"Epoch {epoch + 1}: loss={total / len(train):.4f} val_acc={(pred == yv).float().mean():.4f}")
