# Asked as: some of my features are NaN, loss is nan at once or I call nan_to_num on the loss (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)
table = torch.randn(400, 6)
target = table[:, :1] - table[:, 1:2]
table[torch.rand(400, 6) < 0.05] = float("nan")
# repaired: table = table.nan_to_num(0.0)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(50):
    part = torch.randint(0, 400, (32,))
    errors = (model(table[part]) - target[part]) ** 2
    loss = errors[errors == errors].mean()  # mistake
    # repaired: loss = errors.mean()
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        p.grad.nan_to_num_(0.0)
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
