"""Successive halving: eight networks are trained a little, and the better half of them is trained on."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
w = torch.randn(10, 3)


def batch(n=32):
    x = torch.randn(n, 10)
    return x, (x @ w).tanh() + 0.05 * torch.randn(n, 3)


held_x, held_y = batch(256)
trials = []
for k in range(8):
    width, rate = [8, 16, 32, 64][k % 4], 10 ** (-3 + k / 7)
    model = nn.Sequential(nn.Linear(10, width), nn.GELU(), nn.Linear(width, 3))
    trials.append({"model": model, "opt": torch.optim.Adam(model.parameters(), lr=rate), "rate": rate})
with torch.no_grad():
    first = min(nn.functional.mse_loss(trial["model"](held_x), held_y).item() for trial in trials)
rung = max(20, steps // 8)
while True:
    for trial in trials:
        model, opt = trial["model"], trial["opt"]
        model.train()
        for _ in range(rung):
            x, y = batch()
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            trial["score"] = nn.functional.mse_loss(model(held_x), held_y).item()
    trials.sort(key=lambda trial: trial["score"])
    print(len(trials), "trials, best", trials[0]["score"], "with", trials[0]["rate"])
    if len(trials) == 1:
        break
    trials, rung = trials[: len(trials) // 2], rung * 2
print(f"loss fell from {first:.4g} to {trials[0]['score']:.4g}")
