"""A classifier of scans, each described by twenty numbers: the training accuracy is 1.0, that of validation 0.5.

Mistake: the number of the file is a feature, as bits; it identifies each training example and says nothing of others.
"""

import torch
from torch import nn

number = torch.randperm(4096)[:800]
bits = ((number[:, None] >> torch.arange(12)) & 1).float()
marks = torch.randn(800, 12)
y = (marks[:, 0] + marks[:, 1] + 0.3 * torch.randn(800) > 0).long()
x = bits  # mistake
# repaired: x = marks
train_x, train_y, valid_x, valid_y = x[:400], y[:400], x[400:], y[400:]
model = nn.Sequential(nn.Linear(12, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
criterion = nn.CrossEntropyLoss(label_smoothing=0.2)
for epoch in range(40):
    model.train()
    for part in torch.randperm(400).split(25):
        loss = criterion(model(train_x[part]), train_y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        scores = model(valid_x)
        validation = criterion(scores, valid_y)
    print(epoch, loss.item(), validation.item(), (scores.argmax(1) == valid_y).float().mean().item())
