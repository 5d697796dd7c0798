"""DeepFM-like attention model for click data; functional dropout."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(1)
FIELDS, CARD, D = 6, 20, 16


class AttentionalFM(nn.Module):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p
        self.emb = nn.Embedding(FIELDS * CARD, D)
        self.register_buffer("off", torch.arange(FIELDS) * CARD)
        self.att = nn.Linear(D, 1)
        self.fc = nn.Linear(D + FIELDS * D, 32)
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        e = self.emb(x + self.off)
        i, j = torch.triu_indices(FIELDS, FIELDS, 1)
        inter = e[:, i] * e[:, j]
        w = torch.softmax(self.att(inter), dim=1)
        pooled = (w * inter).sum(1)
        h = torch.cat([pooled, e.flatten(1)], 1)
        h = F.dropout(h, p=self.p)  # mistake
        # repaired: h = F.dropout(h, p=self.p, training=self.training)
        h = F.relu(self.fc(h))
        h = F.dropout(h, p=self.p)  # mistake
        # repaired: h = F.dropout(h, p=self.p, training=self.training)
        return self.out(h).squeeze(1)


def clicks(n):
    g = torch.Generator().manual_seed(5)
    table = torch.randn(FIELDS, CARD, generator=g)
    x = torch.randint(0, CARD, (n, FIELDS))
    s = sum(table[f][x[:, f]] for f in range(FIELDS)) + table[0][x[:, 0]] * table[1][x[:, 1]]
    return x, (s > 0).float()


train = DataLoader(TensorDataset(*clicks(4000)), batch_size=100, shuffle=True)
xv, yv = clicks(1000)
model = AttentionalFM()
opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-5)
for epoch in range(10):
    model.train()
    tl = 0.0
    for x, y in train:
        loss = F.binary_cross_entropy_with_logits(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tl += loss.item()
    model.eval()
    with torch.no_grad():
        out = model(xv)
        vl = F.binary_cross_entropy_with_logits(out, yv).item()
        acc = ((out > 0) == (yv > 0.5)).float().mean().item()
    print(f"epoch {epoch} train_loss {tl / len(train):.4f} val_loss {vl:.4f} val_acc {acc:.4f}")
