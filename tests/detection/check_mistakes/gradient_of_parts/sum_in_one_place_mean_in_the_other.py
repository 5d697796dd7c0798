# Asked as: reduction="sum" and dividing by the number of batches: my rate depends on the batch size (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
micro, whole = 8, 32
for step in range(40):
    x = torch.randn(whole, 6)
    y = torch.stack([x[:, 0] * x[:, 1], x[:, 2].sin()], dim=1)
    optimizer.zero_grad()
    for a, b in zip(x.split(micro), y.split(micro)):
        loss = ((model(a) - b) ** 2).sum(1).sum() / (whole // micro)  # mistake
        # repaired: loss = ((model(a) - b) ** 2).sum(1).sum() / whole
        loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
