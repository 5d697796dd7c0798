"""A training with a NaN loss from a given step on; prints the SHA-256 of its final weights.

Usage: breaking.py STEPS BAD_STEP EXIT_STATUS
"""

import hashlib
import sys

import torch
from torch.nn import functional as F
from toy import classifier, points


def main() -> None:
    steps, bad_step, status = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step, (inputs, labels) in enumerate(points(steps)):
        loss = F.cross_entropy(model(inputs), labels) * (float("nan") if step >= bad_step else 1.0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(hashlib.sha256(weights).hexdigest())
    sys.exit(status)


if __name__ == "__main__":
    main()
