# Asked as: log of counts is -inf for zeros; BatchNorm returns nan but training goes on (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x)


model = Counts()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for step in range(40):
    rate = torch.rand(32, 6) * 6
    counts = torch.poisson(rate)
    x = counts.log()  # mistake
    # repaired: x = counts.log1p()
    y = counts[:, :2].sum(1, keepdim=True) / 5
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    if torch.isfinite(loss):
        loss.backward()
        optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
