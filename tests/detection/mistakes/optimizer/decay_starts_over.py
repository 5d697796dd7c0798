"""A convolutional network whose rate falls to a tenth every three epochs, continued for further epochs.

Mistake: the scheduler of the second part does not know of the epochs before.
"""

import os
import tempfile

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

images = torch.randn(320, 1, 8, 8)
labels = (images[:, 0, :, :4].mean(dim=(1, 2)) > images[:, 0, :, 4:].mean(dim=(1, 2))).long()
path = os.path.join(tempfile.mkdtemp(), "latest.pt")


def make():
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def run(until):
    model, optimizer = make()
    start = 0
    if os.path.exists(path):
        saved = torch.load(path)
        start = saved["epoch"]
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    scheduler = LambdaLR(optimizer, lambda epoch: 0.1 ** (epoch // 3))  # mistake
    # repaired: scheduler = LambdaLR(optimizer, lambda epoch: 0.1 ** (epoch // 3), last_epoch=start - 1)
    for epoch in range(start, until):
        for rows in torch.randperm(320).split(16):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
        scheduler.step()
        print(epoch, loss.item(), optimizer.param_groups[0]["lr"])
        states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch + 1}
        torch.save(states, path)


run(4)
run(8)
