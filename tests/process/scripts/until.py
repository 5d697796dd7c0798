"""A training that waits at step 20 for the file of its second argument, breaks, and goes on until the first exists."""

import os
import sys
import time

import torch
from torch import nn

BAD_STEP = 20


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    is_held = len(sys.argv) > 2
    step = 0
    while not os.path.exists(sys.argv[1]):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        while step == BAD_STEP and is_held and not os.path.exists(sys.argv[2]):
            time.sleep(0.01)
        if step == BAD_STEP:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        time.sleep(0.02)
    print("came to its end")


if __name__ == "__main__":
    main()
