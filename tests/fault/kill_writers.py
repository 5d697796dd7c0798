"""Kills processes that write runs with ``leadline.Hook``, each at a random moment.

``python kill_writers.py FOLDER COUNT SEED``: forks one process after the other. Each writes rows and raw tensors with
``leadline.Hook`` as fast as it can, and reports the last step that was flushed; it is killed some time after its first
report. Segments are small, so that they are sealed all the time. Prints a line per process: its run and last report.
"""

from __future__ import annotations

import os
import random
import select
import signal
import struct
import sys
import time
from pathlib import Path

import numpy as np

import leadline
import leadline.store.writer

SEGMENT_BYTES = 30_000
LONGEST_SECONDS = 0.15
CAPTURE = ("losses:every=1", "weights:every=1,raw=true,statistics=max")
_REPORT = struct.Struct("<q")


def tensor(step: int) -> np.ndarray:
    """Return the raw tensor of a step."""
    return np.full((16, 16), step, np.float32)


def write(folder: Path, name: str, pipe: int) -> None:
    """Write a run until the process is killed."""
    leadline.store.writer._SEGMENT_BYTES = SEGMENT_BYTES  # type: ignore[misc]
    hook = leadline.Hook(out=str(folder), name=name, preset=None, capture=CAPTURE)
    from leadline.training.session import api

    session = api.current()
    assert session is not None
    for step in range(1 << 30):
        hook.log(loss=step / 2)
        hook.save_tensor("w", tensor(step), collections="weights")
        hook.step()
        if step % 20 == 19:
            session.flush()
            os.write(pipe, _REPORT.pack(step))


def main(folder: Path, count: int, seed: int) -> None:
    generator = random.Random(seed)
    for number in range(count):
        name = f"run-{number}"
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            try:
                write(folder, name, writing)
            finally:
                os._exit(1)
        os.close(writing)
        select.select([reading], [], [], 30)
        time.sleep(generator.random() * LONGEST_SECONDS)
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        reports = b""
        while part := os.read(reading, 1 << 16):
            reports += part
        os.close(reading)
        last = _REPORT.unpack(reports[-_REPORT.size :])[0] if reports else -1
        print(name, last, os.WTERMSIG(status), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
