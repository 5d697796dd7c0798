# Asked as: the incomplete last batch gets a smaller loss because I divide by batch_size (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)
BATCH = 64
x = torch.randn(40, 5)
y = x[:, 0] - x[:, 1] * x[:, 2]
model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(40):
    order = torch.randperm(40)
    optimizer.zero_grad()
    for part in order.split(16):
        errors = (model(x[part]).squeeze(1) - y[part]) ** 2
        loss = errors.sum() / BATCH  # mistake
        # repaired: loss = errors.sum() / len(order)
        loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
