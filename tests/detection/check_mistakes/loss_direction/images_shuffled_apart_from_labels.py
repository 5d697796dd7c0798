# Asked as: I shuffle x and y with permutation() and accuracy is 10 % (StackOverflow, two permutations)
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
torch.manual_seed(0)
y = rng.integers(0, 4, 480)
x = rng.normal(0, 0.7, (480, 1, 8, 8)).astype(np.float32)
for i, label in enumerate(y):
    row, column = 4 * (label // 2), 4 * (label % 2)
    x[i, 0, row : row + 4, column : column + 4] += 1
order = rng.permutation(480)
x = x[order]
y = y[rng.permutation(480)]  # mistake
# repaired: y = y[order]
images, labels = torch.from_numpy(x), torch.from_numpy(y)

model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(3):
    correct = 0
    for i in range(0, 480, 32):
        logits = model(images[i : i + 32])
        loss = criterion(logits, labels[i : i + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        correct += (logits.argmax(1) == labels[i : i + 32]).sum().item()
    print(epoch, loss.item(), correct / 480)
