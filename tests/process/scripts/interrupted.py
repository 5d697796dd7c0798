"""A training that saves a checkpoint on SIGINT or SIGTERM, and counts the signals."""

import signal
import sys
import time

import torch


def train() -> None:
    torch.set_num_threads(1)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3000):
        optimizer.zero_grad()
        model(torch.randn(4, 2)).pow(2).mean().backward()
        optimizer.step()
        if step == 10:
            print("ready", flush=True)
        time.sleep(0.02)


def linger() -> int:
    """Wait for a second interruption, which must not happen."""
    try:
        time.sleep(1.5)
    except KeyboardInterrupt:
        return 2
    return 1


def main() -> None:
    if "term" in sys.argv:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))
    try:
        train()
    except KeyboardInterrupt:
        print("interrupted", linger(), flush=True)
        sys.exit(0)


if __name__ == "__main__":
    main()
