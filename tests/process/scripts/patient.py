"""A training of 100,000 steps for ``leadline doctor``; the first argument selects its kind."""

import contextlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.tanh(self.act(self.first(x))))


def main() -> None:
    kind = sys.argv[1]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model: nn.Module = torch.jit.script(Net()) if kind == "scripted" else Net()
    if kind == "frozen":
        model.first.requires_grad_(False)
    optimizer = torch.optim.AdamW([parameter for parameter in model.parameters() if parameter.requires_grad], lr=1e-3)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    if kind == "replaced":
        optimizer.step = lambda closure=None: None
    net = torch.compile(model, backend="eager") if kind == "compiled" else model
    criterion = nn.CrossEntropyLoss()
    for step in range(1 if kind == "short" else 100_000):
        inputs, labels = torch.randn(32, 6), torch.randint(3, (32,))
        outputs = net(inputs)
        loss = functional.cross_entropy(outputs, labels) if kind == "functional" else criterion(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        if kind == "manual":
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 1e-3 * parameter.grad
        elif kind == "stubborn":
            with contextlib.suppress(BaseException):
                optimizer.step()
            time.sleep(0.05)
        else:
            optimizer.step()
            schedule.step()
        if step == 1 and kind == "plain":
            model.eval()
            with torch.no_grad():
                criterion(model(inputs), labels)
            model.train()
    print("came to its end")


if __name__ == "__main__":
    main()
