"""A small convolutional network for grey images of three shapes.

Mistake: softmax at the end of forward() before cross entropy, which takes logits.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 12, 3)
        self.fc1 = nn.Linear(12 * 2 * 2, 32)
        self.fc2 = nn.Linear(32, 3)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = self.fc2(x)
        return F.softmax(x, dim=1)  # mistake
        # repaired: return x


def get_batch(size=16):
    labels = torch.randint(3, (size,))
    images = 0.3 * torch.randn(size, 1, 14, 14)
    for image, label in zip(images, labels):
        place = 4 * int(label)
        image[0, place : place + 4] += 1.0
    return images - images.mean(), labels


net = Net()
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
running_loss = 0.0
for i in range(100):
    inputs, labels = get_batch()
    optimizer.zero_grad()
    outputs = net(inputs)
    loss = criterion(outputs, labels)
    loss.backward()
    optimizer.step()
    running_loss += loss.item()
    if i % 20 == 19:
        print(f"[{i + 1:5d}] loss: {running_loss / 20:.3f}")
        running_loss = 0.0
