"""A convolutional network for a handful of photographs: the training accuracy reaches 100 %, the validation stays low.

Mistake: forty examples, which the network learns by heart in a few of many epochs.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WAYS = torch.randn(4, 1, 12, 12)


def photographs(n):
    labels = torch.randint(4, (n,))
    return TensorDataset(0.25 * WAYS[labels] + torch.randn(n, 1, 12, 12), labels)


train = DataLoader(photographs(40), batch_size=10, shuffle=True)  # mistake
epochs = 40  # mistake
# repaired: train = DataLoader(photographs(4000), batch_size=40, shuffle=True)
# repaired: epochs = 9
valid = DataLoader(photographs(400), batch_size=100)
model = nn.Sequential(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-2)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
for epoch in range(epochs):
    model.train()
    for images, labels in train:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
    model.eval()
    right, total = 0, 0.0
    with torch.no_grad():
        for images, labels in valid:
            scores = model(images)
            total += criterion(scores, labels).item() / len(valid)
            right += (scores.argmax(1) == labels).sum().item()
    print(epoch, loss.item(), total, right / 400)
