"""Eight rates compete: each gets a few steps, the better half goes on with twice as many, until one is left."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

steps = int(sys.argv[1])
to_class = torch.randn(12, 4)
x = torch.randn(1400, 12)
y = (torch.tanh(x) @ to_class + 0.3 * torch.randn(1400, 4)).argmax(1)
x, y, held_out, labels = x[:1200], y[:1200], x[1200:], y[1200:]


class Trial:
    def __init__(self, rate):
        self.model = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=rate, momentum=0.9, nesterov=True)
        self.rate, self.score = rate, float("inf")

    def train(self, count):
        self.model.train()
        for _ in range(count):
            batch = torch.randint(1200, (32,))
            loss = F.cross_entropy(self.model(x[batch]), y[batch])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.model.eval()
        with torch.no_grad():
            self.score = F.cross_entropy(self.model(held_out), labels).item()


trials, count = [Trial(10 ** (-2.4 + 0.2 * number)) for number in range(8)], max(steps // 32, 5)
while True:
    for trial in trials:
        trial.train(count)
    trials.sort(key=lambda trial: trial.score)
    print(count, [round(trial.score, 3) for trial in trials])
    if len(trials) == 1:
        break
    trials, count = trials[: len(trials) // 2], 2 * count
