# Asked as: sigmoid network does not learn with inputs in the thousands / weights from N(0, 10) (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 40), nn.Sigmoid(), nn.Linear(40, 40), nn.Sigmoid(), nn.Linear(40, 3))
for p in model.parameters():
    if p.dim() == 2:
        nn.init.normal_(p, 0, 30.0)  # mistake
        # repaired: nn.init.xavier_normal_(p, gain=2.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
concept = torch.randn(10, 3)
for step in range(60):
    x = torch.randn(32, 10)
    y = (x @ concept).argmax(1)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
