# Asked as: why do we need to call zero_grad() in PyTorch? (StackOverflow, the loss oscillates and explodes)
import torch
from torch import nn

torch.manual_seed(0)


def training_step(model, optimizer, batch):
    x, y = batch
    prediction = model(x)
    loss = ((prediction - y) ** 2).mean()
    # repaired: optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


model = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(60):
    x = torch.randn(32, 4)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2] - x[:, 3]], dim=1)
    losses.append(training_step(model, optimizer, (x, y)))
print(f"first {losses[0]:.3f}, last {losses[-1]:.3f}, worst {max(losses):.3f}")
