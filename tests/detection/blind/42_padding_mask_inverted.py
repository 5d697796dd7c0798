"""Sentiment-like classification of padded sequences, nn.MultiheadAttention pooling."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.set_num_threads(1)
torch.manual_seed(0)
V, PAD = 50, 0
polarity = torch.randn(V)


def sentences(n):
    out = []
    for _ in range(n):
        k = int(torch.randint(4, 19, (1,)))
        s = torch.randint(1, V, (k,))
        out.append((s, int(polarity[s].mean() > 0)))
    return out


def collate(batch):
    xs, ys = zip(*batch)
    x = pad_sequence(xs, batch_first=True, padding_value=PAD)
    if x.size(1) < 20:
        x = F.pad(x, (0, 20 - x.size(1)), value=PAD)
    return x, torch.tensor(ys)


class Classifier(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Embedding(V, d)
        self.query = nn.Parameter(torch.randn(1, 1, d))
        self.att = nn.MultiheadAttention(d, 4, batch_first=True)
        self.fc = nn.Linear(d, 2)

    def forward(self, x):
        h = self.emb(x)
        mask = x != PAD  # mistake
        # repaired: mask = x == PAD
        pooled, _ = self.att(self.query.expand(len(x), -1, -1), h, h, key_padding_mask=mask)
        return self.fc(torch.relu(pooled[:, 0]))


train = DataLoader(sentences(2400), batch_size=48, shuffle=True, collate_fn=collate)
val = DataLoader(sentences(480), batch_size=240, collate_fn=collate)
model = Classifier()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(6):
    model.train()
    tot = 0
    for x, y in train:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tot += loss.item()
    model.eval()
    with torch.no_grad():
        acc = sum((model(x).argmax(1) == y).sum().item() for x, y in val) / 480
    print(f"epoch {epoch} loss {tot / len(train):.4f} val acc {acc:.4f}")
