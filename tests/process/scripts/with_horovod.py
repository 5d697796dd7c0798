"""A short training with a timeline in Horovod's format, written in parallel and truncated at the end.

with_horovod.py STEPS [WAIT_FILE]: in the middle it waits until WAIT_FILE.go exists.
"""

from __future__ import annotations

import json
import os
import sys
import time

import torch
from torch import nn

TENSORS = ("conv1.weight", "conv1.bias", "head.weight")


def main(steps: int, wait: str | None) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    started, started_us = time.monotonic_ns(), time.time_ns() // 1000

    def now_us() -> int:
        return (time.monotonic_ns() - started) // 1000

    with open(os.environ["HOROVOD_TIMELINE"], "w") as file:

        def write(**event: object) -> None:
            """Write an event as Horovod 0.28 does: the list is closed after it, and reopened by the next."""
            file.seek(file.tell() - 1)
            file.write("," + json.dumps(event) + "]")
            file.flush()

        def describe(**event: object) -> str:
            return json.dumps(event) + ",\n"

        file.write("[\n")
        epoch_us = {"start_time_since_epoch_in_micros": started_us}
        file.write(describe(name="process_name", ph="M", pid=0, args=epoch_us))
        for pid, name in enumerate(TENSORS):
            file.write(describe(name="process_name", ph="M", pid=pid, args={"name": name}))
        for step in range(steps):
            optimizer.zero_grad()
            model(torch.ones(3, 4)).sum().backward()
            if step == 0:
                file.write(json.dumps({"ph": "i", "name": "CYCLE_START", "ts": now_us(), "s": "g"}) + "]")
            for pid in range(len(TENSORS)):
                write(ph="B", name="NEGOTIATE_ALLREDUCE", ts=now_us(), pid=pid)
                write(ph="X", name="0", ts=now_us(), pid=pid, dur=0)
                write(ph="E", ts=now_us(), pid=pid)
            for pid in range(len(TENSORS)):
                write(ph="B", name="ALLREDUCE", ts=now_us(), pid=pid)
                write(ph="B", name="MPI_ALLREDUCE", ts=now_us(), pid=pid)
                time.sleep(0.002)
                write(ph="E", ts=now_us(), pid=pid)
                write(ph="E", ts=now_us(), pid=pid, args={"dtype": "float32", "shape": "[4, 2]"})
            optimizer.step()
            if wait is not None and step == steps // 2:
                file.seek(file.tell() - 1)
                file.write(',{"ph": "B", "name": "ALLRED')
                file.flush()
                open(f"{wait}.waits", "w").close()
                while not os.path.exists(f"{wait}.go"):
                    time.sleep(0.01)
                file.write(f'UCE", "ts": {now_us()}, "pid": 0}}]')
                write(ph="E", ts=now_us(), pid=0)
        file.seek(file.tell() - 1)
        file.write(',{"ph": "B", "name": "ALLREDUCE", "ts": 12')


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
