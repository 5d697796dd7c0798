"""A network for the returns of shares: "the training loss goes to zero, the validation loss does not move".

Mistake: 60 weeks, and a network with thousands of weights for them.
"""

import torch
from torch import nn

WEEKS = 60  # mistake
EPOCHS = 60  # mistake
# repaired: WEEKS = 3000
# repaired: EPOCHS = 10


def weeks(n):
    x = torch.randn(n, 20)
    return x, 0.7 * x[:, :1] + torch.randn(n, 1)


train, valid = weeks(WEEKS), weeks(200)
model = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
criterion = nn.MSELoss()
for epoch in range(EPOCHS):
    for part in torch.randperm(WEEKS).split(20):
        optimizer.zero_grad()
        loss = criterion(model(train[0][part]), train[1][part])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        validation = criterion(model(valid[0]), valid[1])
    model.train()
    print(epoch, loss.item(), validation.item())
