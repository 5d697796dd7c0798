"""Folder-style classification; class ids come from the names that are found."""

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
torch.manual_seed(0)
NAMES = ["ant", "bee", "cat", "dog", "eel", "fox"]
PROTO = np.random.default_rng(0).standard_normal((6, 24))


def scan(split):
    """What os.walk would return: (class name, feature vector)."""
    rng = np.random.default_rng({"train": 1, "val": 2}[split])
    names = NAMES if split == "train" else [n for n in NAMES if n != "bee"]  # no bee photos in val
    n = 1800 if split == "train" else 400
    return [
        (c, (PROTO[NAMES.index(c)] + 1.3 * rng.standard_normal(24)).astype(np.float32)) for c in rng.choice(names, n)
    ]


class FolderDataset(Dataset):
    def __init__(self, split, class_to_idx=None):
        self.items = scan(split)
        self.classes = sorted({c for c, _ in self.items})
        self.class_to_idx = class_to_idx or {c: i for i, c in enumerate(self.classes)}

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        c, v = self.items[i]
        return torch.from_numpy(v), self.class_to_idx[c]


train_ds = FolderDataset("train")
val_ds = FolderDataset("val")  # mistake
# repaired: val_ds = FolderDataset("val", train_ds.class_to_idx)
train, val = DataLoader(train_ds, batch_size=60, shuffle=True), DataLoader(val_ds, batch_size=100)
model = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, len(train_ds.classes)))
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(8):
    model.train()
    tl = ta = 0
    for x, y in train:
        out = model(x)
        loss = nn.functional.cross_entropy(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        tl += loss.item()
        ta += (out.argmax(1) == y).float().mean().item()
    model.eval()
    with torch.no_grad():
        vl = np.mean([nn.functional.cross_entropy(model(x), y).item() for x, y in val])
        va = np.mean([(model(x).argmax(1) == y).float().mean().item() for x, y in val])
    print(f"epoch {epoch}: train loss {tl / len(train):.3f} acc {ta / len(train):.3f} | val loss {vl:.3f} acc {va:.3f}")
