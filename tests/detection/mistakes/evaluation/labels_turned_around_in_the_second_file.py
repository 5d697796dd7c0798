"""A classifier of defects, whose training and validation come in two files.

Mistake: in one file 1 stands for a defect, in the other for a good part.
"""

import torch
from torch import nn

x = torch.randn(1000, 12)
is_defect = (x[:, 0] - x[:, 1] + 0.3 * torch.randn(1000) > 0).long()
train_x, train_y = x[:700], is_defect[:700]
valid_x, valid_y = x[700:], 1 - is_defect[700:]  # mistake
# repaired: valid_x, valid_y = x[700:], is_defect[700:]
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for epoch in range(8):
    model.train()
    for index in torch.randperm(700).split(35):
        loss = criterion(model(train_x[index]), train_y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [criterion(model(x), y).item() for x, y in zip(valid_x.split(100), valid_y.split(100))]
    print(epoch, loss.item(), sum(losses) / len(losses))
