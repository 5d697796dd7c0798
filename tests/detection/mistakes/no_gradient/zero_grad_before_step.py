"""A classifier.

Mistake: zero_grad() between backward() and step(), so that each update is of gradients that are gone.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 32)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
prototypes = torch.randn(4, 20)
for step in range(120):
    target = torch.randint(4, (32,))
    data = prototypes[target] + torch.randn(32, 20)
    # repaired: optimizer.zero_grad()
    loss = F.cross_entropy(model(data), target)
    loss.backward()
    optimizer.zero_grad()  # mistake
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
