"""A small training on a device, which becomes NaN at a step: what ``gpu_parts.py`` launches with ``leadline run``."""

from __future__ import annotations

import argparse
import time

import torch
from workload import LENGTH, ByteEncoder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device")
    parser.add_argument("--seconds", type=float, required=True, help="how long it trains")
    parser.add_argument("--bad-step", type=int, default=-1, help="the step at which its loss becomes NaN")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = ByteEncoder(64, 2).to(options.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    criterion = torch.nn.CrossEntropyLoss()
    tokens = torch.randint(0, 256, (8, LENGTH + 1), device=options.device)
    negative = torch.tensor(-1.0, device=options.device)
    end, step = time.monotonic() + options.seconds, 0
    while time.monotonic() < end:
        optimizer.zero_grad()
        loss = criterion(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        if step == options.bad_step:
            loss = loss * negative.log()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            loss.item()  # or the host would run far ahead of the device
    print(f"trained {step} steps")


if __name__ == "__main__":
    main()
