"""A network for yes or no with one output unit, as carried over from Keras: Dense(1, activation="softmax").

Mistake: softmax over one output unit, which is always 1.
"""

import torch
import torch.nn.functional as F
from torch import nn

data = torch.randn(500, 6)
target = (data.sum(dim=1) > 0).float().view(-1, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense1 = nn.Linear(6, 12)
        self.dense2 = nn.Linear(12, 8)
        self.dense3 = nn.Linear(8, 1)

    def forward(self, x):
        x = F.relu(self.dense1(x))
        x = F.relu(self.dense2(x))
        return F.softmax(self.dense3(x), dim=-1)  # mistake
        # repaired: return torch.sigmoid(self.dense3(x))


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.002)
for epoch in range(10):
    for i in range(0, 500, 50):
        output = net(data[i : i + 50])
        loss = F.mse_loss(output, target[i : i + 50])  # mistake
        # repaired: loss = F.binary_cross_entropy(output, target[i : i + 50])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
