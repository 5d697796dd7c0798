"""A fine-tuning on four GPUs by a trainer that steps the schedule once for each of them.

Mistake: the schedule is made for the steps of the training, not four times as many, so that it is over after a quarter.
"""

import torch
from torch import nn

processes, steps, warm_up = 4, 240, 12
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
length = steps  # mistake
# repaired: length = steps * processes
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: min(step / warm_up, max(0.0, (length - step) / (length - warm_up)))
)
means = torch.randn(4, 16)
for step in range(steps):
    labels = torch.randint(4, (32,))
    loss = nn.functional.cross_entropy(model(means[labels] + torch.randn(32, 16)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for _ in range(processes):
        schedule.step()
    if step % 60 == 0:
        print(step, loss.item(), schedule.get_last_lr())
