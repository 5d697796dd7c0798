# Asked as: all outputs of my network are the same constant (StackOverflow, large negative biases and ReLU)
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
for layer in model:
    if isinstance(layer, nn.Linear):
        nn.init.normal_(layer.weight, std=0.1)
        nn.init.constant_(layer.bias, -4.0)  # mistake
        # repaired: nn.init.constant_(layer.bias, 0.0)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(60):
    x = torch.randn(64, 8)
    y = (x[:, :1] * x[:, 1:2]).tanh() + x[:, 2:3]
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
