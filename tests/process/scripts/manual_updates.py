"""A training in a process without any PyTorch optimizer, whose loss is NaN from step 30 on.

The first argument says how parameters are updated: ``in_place`` under ``no_grad``, or by the optimizer of a
``foreign`` library, which steps and zeroes gradients as fastai's does.
"""

import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class ForeignOptimizer:
    """The steps of ``fastai.optimizer.Optimizer``: lists of parameters, updates through ``data``, gradients zeroed."""

    def __init__(self, parameters: list[nn.Parameter], lr: float) -> None:
        self.parameters, self.lr = parameters, lr

    def step(self) -> None:
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.data.add_(parameter.grad.data, alpha=-self.lr)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.detach_()
                parameter.grad.zero_()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    kind = sys.argv[1]
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    foreign = ForeignOptimizer(list(model.parameters()), 0.05)
    for step in range(600):
        inputs = torch.randn(8, 4)
        loss = functional.mse_loss(model(inputs), inputs[:, :1]) * (math.nan if step >= 30 else 1.0)
        if kind != "foreign":
            model.zero_grad()
        loss.backward()
        if kind == "foreign":
            foreign.step()
            foreign.zero_grad()
        else:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.05 * parameter.grad
        time.sleep(0.02)
    print("came to its end")


if __name__ == "__main__":
    main()
