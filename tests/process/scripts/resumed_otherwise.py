"""A training with a checkpoint at every 20 steps that continues from the latest one.

Arguments: the number of steps, and what it does not restore: ``nothing`` is left out, the ``optimizer``, the
``schedule``, or the ``weights``, ``moments`` that are set to 0, and ``data`` that start over.
"""

import os
import sys

import torch

STEPS, LEFT_OUT = int(sys.argv[1]), sys.argv[2]
CHECKPOINT = "checkpoint.pt"


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(32, 4, generator=generator)
    return inputs, inputs @ torch.tensor([[1.0], [-2.0], [3.0], [0.5]]) + 4 + 0.1 * torch.randn(
        32, 1, generator=generator
    )


torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.2)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.93)
first = 0
if os.path.exists(CHECKPOINT):
    state = torch.load(CHECKPOINT, weights_only=True)
    first = state["step"]
    if LEFT_OUT != "weights":
        model.load_state_dict(state["model"])
    if LEFT_OUT != "optimizer":
        optimizer.load_state_dict(state["optimizer"])
    if LEFT_OUT == "moments":
        for moments in optimizer.state.values():
            moments["exp_avg"].zero_()
            moments["exp_avg_sq"].zero_()
    if LEFT_OUT != "schedule":
        schedule.load_state_dict(state["schedule"])
    else:
        optimizer.param_groups[0]["lr"] = 0.2
for step in range(first, STEPS):
    inputs, targets = batch(step - (first if LEFT_OUT == "data" else 0))
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 20 == 19:
        states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}
        torch.save({**states, "step": step + 1}, CHECKPOINT)
