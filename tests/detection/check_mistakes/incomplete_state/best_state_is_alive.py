# Asked as: I load the best state_dict at the end and get exactly the accuracy of the last epoch (discuss.pytorch.org)
import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def data(count):
    x = torch.randn(count, 10)
    return x, (x[:, 0] * x[:, 1] > 0).long()


def train():
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    x, y = data(640)
    held_out, labels = data(200)
    lowest, best_weights = float("inf"), None
    for epoch in range(30):
        with torch.no_grad():
            validation = F.cross_entropy(model(held_out), labels).item()
        if validation < lowest:
            lowest = validation
            best_weights = model.state_dict()  # mistake
            # repaired: best_weights = copy.deepcopy(model.state_dict())
        print(epoch, validation)
        for part in torch.randperm(640).split(32):
            loss = F.cross_entropy(model(x[part]), y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.load_state_dict(best_weights)
    return copy.copy(model)


train()
