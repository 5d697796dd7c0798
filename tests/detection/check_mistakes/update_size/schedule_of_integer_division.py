# Asked as: LambdaLR sets my learning rate to 0 during the whole warm-up (StackOverflow, // instead of /)
import torch
from torch import nn

torch.manual_seed(0)
WARM_UP = 100


def factor(step):
    value = min(1, step // WARM_UP)  # mistake
    # repaired: value = min(1, (step + 10) / 20)
    return value


model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
templates = torch.randn(4, 1, 8, 8)
for step in range(50):
    y = torch.randint(0, 4, (32,))
    x = templates[y] + torch.randn(32, 1, 8, 8)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 10 == 0:
        print(step, loss.item())
