"""Three kinds of iris flowers.

Mistake: Adam with a learning rate of 1.
"""

import torch
from torch import nn


class Iris(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden1, self.hidden2 = nn.Linear(4, 50), nn.Linear(50, 20)
        self.output = nn.Linear(20, 3)

    def forward(self, flower):
        flower = torch.relu(self.hidden1(flower))
        return self.output(torch.relu(self.hidden2(flower)))


kinds = torch.randint(3, (240,))
flowers = torch.randn(3, 4)[kinds] * 1.5 + 0.6 * torch.randn(240, 4)
model = Iris()
optimizer = torch.optim.Adam(model.parameters(), lr=1.0)  # mistake
# repaired: optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(300):
    loss = nn.functional.cross_entropy(model(flowers), kinds)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 50 == 0:
        print(epoch, loss.item())
