# Asked as: regression with tanh at the end never gets below a certain loss (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, x):
        return torch.tanh(self.body(x))  # mistake
        # repaired: return self.body(x)


model = Generator()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(60):
    x = torch.randn(32, 6)
    y = 5 * x[:, :3] + 2
    loss = nn.functional.l1_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
