"""A training that learns for a while and then waits for ever, as for data that do not come.

Its first argument says after how many steps; when it begins to wait it writes the time, in ns, into the file that the
second names.
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
