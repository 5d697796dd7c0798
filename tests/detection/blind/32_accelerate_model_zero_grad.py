"""Accelerate, gradient accumulation over 8 micro-batches sorted by length/class."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)
ACC = 8
x = torch.randn(4096, 20)
w = torch.randn(20, 8)
y = (x @ w + 0.5 * torch.randn(4096, 8)).argmax(1)
# bucketed: every micro-batch holds one class, classes come in turn
order = [torch.nonzero(y == c).squeeze(1)[:400] for c in range(8)]
m = min(len(o) for o in order) // 8 * 8
idx = torch.stack([o[:m].view(-1, 8) for o in order], 1).view(-1)
train = DataLoader(TensorDataset(x[idx], y[idx]), batch_size=8, shuffle=False)
val_x = torch.randn(1000, 20)
val_y = (val_x @ w).argmax(1)

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ACC)
model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 8))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
model, optimizer, train = accelerator.prepare(model, optimizer, train)
for epoch in range(8):
    tot = 0.0
    for xb, yb in train:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(xb), yb)
            model.zero_grad()  # mistake
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            # repaired: optimizer.zero_grad()
            tot += loss.item()
    with torch.no_grad():
        acc = (model(val_x).argmax(1) == val_y).float().mean()
    accelerator.print(f"epoch {epoch} loss {tot / len(train):.4f} val acc {acc:.4f}")
