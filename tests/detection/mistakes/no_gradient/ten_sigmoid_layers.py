"""A deep network of sigmoid layers.

Mistake: ten sigmoids in a row, through which almost no gradient comes back.
"""

import torch
from torch import nn

activation = nn.Sigmoid  # mistake
# repaired: activation = nn.Tanh
layers = [nn.Linear(10, 24), activation()]
for _ in range(9):
    layers += [nn.Linear(24, 24), activation()]
    nn.init.xavier_uniform_(layers[-2].weight)
model = nn.Sequential(*layers, nn.Linear(24, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
means = 2 * torch.randn(4, 10)
for step in range(400):
    labels = torch.randint(4, (48,))
    loss = criterion(model(means[labels] + torch.randn(48, 10)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
