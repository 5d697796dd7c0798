"""Trains with checkpoints every five steps, continues from the latest one, and evaluates every eight steps.

Arguments: steps in total, the step at which the process is killed (-1: none), the optimizer.
"""

import os
import signal
import sys
import time

import torch

STEPS, KILLED_AT, OPTIMIZER = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
CHECKPOINT = "checkpoint.pt"


def batch(step: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(count, 4, generator=generator)
    return inputs, inputs.sum(1, keepdim=True) + 0.1 * torch.randn(count, 1, generator=generator)


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = getattr(torch.optim, OPTIMIZER)(model.parameters(), lr=0.02)
criterion = torch.nn.MSELoss()
first = 0
if os.path.exists(CHECKPOINT):
    state = torch.load(CHECKPOINT, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
for step in range(first, STEPS):
    if step % 8 == 0 and step > 0:
        model.eval()
        with torch.no_grad():
            inputs, targets = batch(10_000 + step, 16)
            criterion(model(inputs), targets + 0.05 * step)  # ever further from the training data
        model.train()
    if step % 5 == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, CHECKPOINT)
    if step == KILLED_AT:
        time.sleep(0.6)  # everything until here is flushed
        os.kill(os.getpid(), signal.SIGKILL)
    inputs, targets = batch(step, 16)
    optimizer.zero_grad()
    loss = criterion(model(inputs), targets)
    loss.backward()
    optimizer.step()
