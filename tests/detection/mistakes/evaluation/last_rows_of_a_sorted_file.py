"""A classifier of rows in a file that is sorted by the class.

Mistake: the last fifth of the file is the validation, which has a single class.
"""

import torch
from torch import nn

labels = torch.arange(4).repeat_interleave(200)
rows = torch.randn(800, 10) + 0.8 * torch.randn(4, 10)[labels]
order = torch.arange(800)  # mistake
# repaired: order = torch.randperm(800)
train, valid = order[:640], order[640:]
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(8):
    model.train()
    for index in train[torch.randperm(640)].split(32):
        optimizer.zero_grad()
        loss = criterion(model(rows[index]), labels[index])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [criterion(model(rows[index]), labels[index]).item() for index in valid.split(80)]
    print(epoch, loss.item(), sum(losses) / len(losses))
