# Asked as: weights grow with my L2 term, I subtract the penalty (StackOverflow, regularization by hand)
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for step in range(40):
    x = torch.randn(64, 6)
    y = x[:, :1].abs() + 0.1 * torch.randn(64, 1)
    error = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    error.backward()
    with torch.no_grad():
        for p in model.parameters():
            p.grad -= 0.5 * p  # mistake
            # repaired: p.grad += 0.0005 * p
    optimizer.step()
    if step % 10 == 0:
        print(step, error.item())
