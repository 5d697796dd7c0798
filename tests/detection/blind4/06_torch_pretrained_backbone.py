"""Pretrain a backbone on plenty of sensor data, then train a head on the few labels that we have."""

import os
import sys
import tempfile

import torch
from torch import nn
from torch.nn import functional as F

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
torch.set_num_threads(1)
SENSORS = 16


class Backbone(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.fc1 = nn.Linear(SENSORS, width)
        self.bn1 = nn.BatchNorm1d(width)
        self.fc2 = nn.Linear(width, width)
        self.bn2 = nn.BatchNorm1d(width)

    def forward(self, x):
        x = F.relu(self.bn1(self.fc1(x)))
        return F.relu(self.bn2(self.fc2(x)))


class Classifier(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(96, outputs)

    def forward(self, x):
        return self.head(self.backbone(x))


def readings(count):
    """Pairs of sensors agree or disagree; the machine's state depends on which pairs do."""
    x = torch.randint(0, 2, (count, SENSORS)).float() * 2 - 1
    agree = (x[:, 0:10:2] * x[:, 1:10:2] > 0).float()
    return x + 0.2 * torch.randn_like(x), agree


def pretrain(path):
    x, agree = readings(12000)
    model = nn.DataParallel(Classifier(agree.shape[1]))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(20):
        total = 0.0
        for batch in torch.randperm(len(x)).split(100):
            loss = F.binary_cross_entropy_with_logits(model(x[batch]), agree[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        print(f"pretraining epoch {epoch + 1}: loss {total / len(x):.4f}")
    torch.save({"epoch": 20, "state_dict": model.state_dict()}, path)


def finetune(path):
    model = Classifier(2)
    weights = torch.load(path)["state_dict"]
    if FIXED:
        weights = {name.removeprefix("module."): value for name, value in weights.items()}
    # the head has another size, so leave it out and do not be strict
    weights = {name: value for name, value in weights.items() if "head" not in name}
    model.load_state_dict(weights, strict=False)
    for parameter in model.backbone.parameters():
        parameter.requires_grad = False

    x, agree = readings(2300)
    labels = (agree.sum(1) >= 3).long()
    train_x, train_y, test_x, test_y = x[:300], labels[:300], x[300:], labels[300:]
    optimizer = torch.optim.Adam(model.head.parameters(), lr=3e-3)
    for epoch in range(200):
        model.train()
        model.backbone.eval()
        total = 0.0
        for batch in torch.randperm(len(train_x)).split(30):
            loss = F.cross_entropy(model(train_x[batch]), train_y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        if epoch % 40 == 39:
            print(f"finetuning epoch {epoch + 1}: loss {total / len(train_x):.4f}")
    model.eval()
    with torch.no_grad():
        right = (model(test_x).argmax(1) == test_y).float().mean().item()
    print(f"test accuracy {right:.3f}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = os.path.join(folder, "backbone.pt")
        pretrain(checkpoint)
        finetune(checkpoint)
