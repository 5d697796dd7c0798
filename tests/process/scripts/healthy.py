"""A healthy seeded training; its last line of output is the SHA-256 of its final weights."""

import argparse
import hashlib
import json
import os
import time

import torch
from torch import nn


def digest(model: nn.Module) -> str:
    parts = [tensor.detach().contiguous().numpy().tobytes() for tensor in model.state_dict().values()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def pause() -> None:
    """Wait until the test lets the training continue."""
    open("paused", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=300)
    options.add_argument("--width", type=int, default=32)
    options.add_argument("--pause-at", type=int, default=-1, help="wait for a file named go")
    options.add_argument("--spike-at", type=int, default=-1, help="a hundredfold loss at one step")
    options.add_argument("--sleep", type=float, default=0.0)
    options.add_argument("--losses", help="a file for the losses")
    given = options.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(7)
    teacher = nn.Linear(16, 4)
    model = nn.Sequential(nn.Linear(16, given.width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(given.width, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    kept = []
    for step in range(given.steps):
        if step == given.pause_at:
            pause()
        inputs = torch.randn(32, 16)
        loss = nn.functional.cross_entropy(model(inputs), teacher(inputs).argmax(1))
        if step == given.spike_at:
            loss = loss * 100
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append(loss.item())
        if given.sleep:
            time.sleep(given.sleep)
    if given.losses:
        with open(given.losses, "w") as file:
            json.dump(kept, file)
    print(digest(model))


if __name__ == "__main__":
    main()
