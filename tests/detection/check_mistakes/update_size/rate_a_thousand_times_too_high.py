# Asked as: SGD loss is 1e6 after the second batch and then stays at ln C (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten()
)
model.append(nn.Linear(256, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=20.0)  # mistake
# repaired: optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
templates = torch.randn(4, 1, 8, 8)
for step in range(40):
    y = torch.randint(0, 4, (32,))
    x = templates[y] + torch.randn(32, 1, 8, 8)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
