"""Distillation from a small teacher.

Mistake: kl_div of log-probabilities as targets, without log_target=True.
"""

import torch
from torch import nn
from torch.nn import functional as F

teacher = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).eval()
student = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4))
optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
T = 2.0
for step in range(120):
    x = torch.randn(48, 8)
    with torch.no_grad():
        soft = F.log_softmax(3 * teacher(x) / T, dim=-1)  # mistake
        # repaired: soft = F.softmax(3 * teacher(x) / T, dim=-1)
    logits = student(x)
    loss = F.kl_div(F.log_softmax(logits / T, dim=-1), soft, reduction="batchmean") * T * T
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
