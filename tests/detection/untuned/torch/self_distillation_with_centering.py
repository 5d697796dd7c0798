"""DINO: a student follows a moving average of itself, whose outputs are centred and sharpened."""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
student = nn.Sequential(nn.Linear(20, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 32))
teacher = copy.deepcopy(student).requires_grad_(False)
center = torch.zeros(1, 32)
optimizer = torch.optim.AdamW(student.parameters(), lr=2e-3, weight_decay=0.04)
centres = torch.randn(16, 20) * 2
history = []
for step in range(steps):
    x = centres[torch.randint(16, (64,))] + 0.3 * torch.randn(64, 20)
    views = [x + 0.2 * torch.randn_like(x) for _ in range(2)] + [x * (torch.rand_like(x) > 0.3) for _ in range(2)]
    with torch.no_grad():
        raw = torch.cat([teacher(view) for view in views[:2]])
        targets = F.softmax((raw - center) / 0.05, -1).chunk(2)
        center = center * 0.9 + raw.mean(0, keepdim=True) * 0.1
    outputs = [F.log_softmax(student(view) / 0.1, -1) for view in views]
    pairs = [(t, o) for i, t in enumerate(targets) for j, o in enumerate(outputs) if i != j]
    loss = sum(-(t * o).sum(-1).mean() for t, o in pairs) / len(pairs)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(student.parameters(), 3.0)
    optimizer.step()
    with torch.no_grad():
        for q, k in zip(student.parameters(), teacher.parameters()):
            k.mul_(0.99).add_(q.detach(), alpha=0.01)
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
