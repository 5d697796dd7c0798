"""A training that hangs after some steps, as if waiting for data.

Arguments: the number of steps, and a file into which it writes the time, in ns, at which it begins to hang.
"""

import sys
import threading
import time
from pathlib import Path

import torch
from toy import classifier, fit, points


def batches(steps: int, mark: Path):
    yield from points(steps)
    mark.write_text(str(time.time_ns()))
    threading.Event().wait()


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = classifier()
    fit(model, torch.optim.SGD(model.parameters(), lr=0.05), batches(int(sys.argv[1]), Path(sys.argv[2])))


if __name__ == "__main__":
    main()
