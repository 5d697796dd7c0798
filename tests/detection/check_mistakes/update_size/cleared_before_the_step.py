# Asked as: order of zero_grad, backward and step: does it matter? the weights never change (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(60):
    x = torch.rand(32, 2) * 4 - 2
    y = torch.sin(x[:, :1]) * x[:, 1:]
    loss = nn.functional.mse_loss(model(x), y)
    # repaired: optimizer.zero_grad()
    loss.backward()
    optimizer.zero_grad()  # mistake
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
