"""A classifier of images in folders, tested after each epoch as in the first example of many tutorials.

Mistake: the classes of the test set are numbered in the order in which its folders were listed.
"""

import torch
import torch.nn.functional as F
from torch import nn

names = ["cat", "deer", "dog", "frog", "horse"]
listed = ["dog", "horse", "cat", "frog", "deer"]  # mistake
# repaired: listed = names
means = {name: torch.randn(20) for name in names}


def folder(order, n):
    data = [(means[name] + torch.randn(20), order.index(name)) for name in names for _ in range(n)]
    order = torch.randperm(len(data))
    return torch.stack([data[i][0] for i in order]), torch.tensor([data[i][1] for i in order])


x_train, y_train = folder(names, 120)
x_test, y_test = folder(listed, 40)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)


def test():
    model.eval()
    correct = 0
    with torch.no_grad():
        for data, target in zip(x_test.split(50), y_test.split(50)):
            pred = model(data).argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    print(f"\nTest set: Accuracy: {correct}/{len(x_test)} ({100.0 * correct / len(x_test):.0f}%)\n")


for epoch in range(1, 9):
    model.train()
    for batch, index in enumerate(torch.randperm(600).split(40)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x_train[index]), y_train[index])
        loss.backward()
        optimizer.step()
        if batch % 5 == 0:
            print(f"Train Epoch: {epoch} [{batch * 40}/600 ({100.0 * batch / 15:.0f}%)]\tLoss: {loss.item():.6f}")
    test()
