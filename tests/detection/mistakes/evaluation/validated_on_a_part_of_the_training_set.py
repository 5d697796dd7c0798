"""A classifier of small images, with a fifth of the data for validation.

Mistake: the loader of the training is given the whole data set, not what is left of it.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

labels = torch.randint(3, (750,))
images = torch.randn(750, 1, 9, 9)
images[torch.arange(750), 0, 3 * labels] += 1.0
data = TensorDataset(images, labels)
train_set, valid_set = random_split(data, [600, 150])
train = DataLoader(data, batch_size=25, shuffle=True)  # mistake
# repaired: train = DataLoader(train_set, batch_size=25, shuffle=True)
valid = DataLoader(valid_set, batch_size=50)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 49, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(8):
    model.train()
    for x, y in train:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        scores = [(F.cross_entropy(model(x), y).item(), (model(x).argmax(1) == y).float().mean()) for x, y in valid]
    print(epoch, loss.item(), scores[0])
