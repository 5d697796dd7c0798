"""A training for other launchers: ``launched.py STEPS [watch] [FILE]`` continues until FILE exists."""

import os
import sys
import time

import torch
from torch import nn


def main() -> None:
    steps = int(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(3)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = 0
    while step < steps or not all(os.path.exists(path) for path in sys.argv[3:]):
        loss = model(torch.randn(4, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        time.sleep(0.01 if step > steps else 0)
    print(step)


if __name__ == "__main__":
    if sys.argv[2:3] == ["watch"]:
        import leadline

        print(leadline.watch())
    main()
