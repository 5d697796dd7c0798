"""An autoencoder; the training was made longer, the schedule was not.

Mistake: the cosine ends after 100 of 260 steps, and rises again after that.
"""

import torch
import torch.nn as nn

basis = torch.randn(5, 30) / 2
model = nn.Sequential(nn.Linear(30, 20), nn.ReLU(), nn.Linear(20, 5), nn.ReLU(), nn.Linear(5, 30))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
steps = 260
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)  # mistake
# repaired: schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
for step in range(steps):
    x = torch.tanh(torch.randn(32, 5) @ basis)
    loss = nn.functional.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 40 == 0:
        print(step, loss.item(), schedule.get_last_lr())
