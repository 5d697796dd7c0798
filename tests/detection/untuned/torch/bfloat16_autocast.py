"""Mixed precision with bfloat16 and no scaler."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
model = nn.Sequential(nn.Linear(20, 96), nn.LayerNorm(96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 7))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
centres = torch.randn(7, 20)
history = []
for step in range(steps):
    y = torch.randint(7, (48,))
    x = centres[y] + torch.randn(48, 20)
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
