"""Epochs that are trained with Leadline beside the same epochs without it, for the rows of ``frameworks.py``.

The bare epochs are trained in a process of their own, which waits while epochs are trained with Leadline in this one:
one run stays open for a whole row. Both processes keep the memory that is freed (``keep_freed_memory``).
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import harness
import numpy as np
from harness import Limit, Row

import leadline
from leadline.hook import DEFAULT_BUDGET, StandaloneRun

BLOCK: Final = 4
"""Epochs that are measured at once: captures are several epochs apart."""
_STEADY_SHARE: Final = 0.04
"""The overhead of a block, as a share of its time, once the budget of the start and what it saved are spent."""
_MOST_SECONDS: Final = 180.0
"""A preset that spends the budget of the start more slowly is measured after this time."""
_KEPT_MEMORY: Final = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_MAX_": "0", "MALLOC_TOP_PAD_": str(1 << 28)}

Epoch = Callable[[], float]
"""Trains one epoch and returns its seconds."""


def keep_freed_memory() -> None:
    """Restart this script with a C library that returns no freed memory to the system.

    Otherwise epochs of TensorFlow on two cores take 1.3 or 2.6 s by chance, with and without Leadline: in the longer
    ones, one thread maps memory while the other one waits for it.
    """
    if not os.environ.keys() >= _KEPT_MEMORY.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | _KEPT_MEMORY)


def answer(epoch: Epoch) -> None:
    """Train as many epochs as each line of the standard input says, and print their seconds."""
    for line in sys.stdin:
        print(sum(epoch() for _ in range(int(line))), flush=True)


@contextmanager
def bare_process(script: str, *arguments: str) -> Iterator[Epoch]:
    """Start a script that calls ``answer``; yield what trains a block of epochs in it and returns its seconds."""
    command = [sys.executable, script, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        given, answers = process.stdin, process.stdout
        assert given is not None
        assert answers is not None

        def block() -> float:
            print(BLOCK, file=given, flush=True)
            return float(answers.readline())

        yield block
        given.close()


def measure(
    key: str,
    name: str,
    limit: Limit | None,
    bare_block: Epoch,
    make_epoch: Callable[[], Epoch],
    *,
    preset: str,
    rounds: int,
    steps: int,
) -> Row:
    """Return the row of blocks of epochs that are trained in turn without Leadline and with it.

    They are measured once the budget of the start, in which a short run is captured whole, and what it saved are spent.
    The note has the second epoch, and what the first one takes beyond it.

    Args:
        bare_block: Trains a block without Leadline and returns its seconds.
        make_epoch: Called once the run is open.
        preset: Leadline's preset.
        steps: The number of steps of an epoch.
    """
    folder = tempfile.mkdtemp(prefix="leadline-epochs-")
    try:
        standalone = StandaloneRun(out=folder, name="run", preset=preset, capture=(), budget=DEFAULT_BUDGET)
        assert standalone.session is not None
        peak, began = _peak_bytes(), time.perf_counter()
        epoch = make_epoch()
        first, second = epoch(), epoch()
        growth = _peak_bytes() - peak
        cost, share = standalone.session.recorder.cost, 1.0

        def block() -> float:
            return sum(epoch() for _ in range(BLOCK))

        while share > _STEADY_SHARE and time.perf_counter() - began < _MOST_SECONDS:
            before_ns = cost.own_ns
            seconds = block()
            share = (cost.own_ns - before_ns) / 1e9 / seconds
        harness.progress(f"  {key}: {cost.own_ns / 1e9:.1f} s of overhead in {time.perf_counter() - began:.0f} s")
        pairs = _pairs(key, bare_block, block, rounds)
        standalone.close()
        expected, found = _count(standalone.run)
    finally:
        shutil.rmtree(folder)
    seconds = float(np.median([before for before, _ in pairs])) / BLOCK
    note = (
        f"{1000 * seconds / steps:.1f} ms per step bare; first captures {first - second:.1f} s, "
        f"peak memory + {growth / 2**20:.0f} MiB; second epoch {second / seconds:.2f}x"
    )
    ratios = tuple(after / before for before, after in pairs)
    return Row(name, "x", harness.spread(ratios), limit, expected, found, note, ratios)


def measure_peer(key: str, name: str, bare: Epoch, peer: Epoch, *, rounds: int, steps: int) -> Row:
    """Return the row of epochs that are trained in turn without and with a peer, or bare against bare.

    Args:
        steps: The number of steps of an epoch.
    """
    pairs = _pairs(key, bare, peer, rounds)
    ratios = tuple(after / before for before, after in pairs)
    seconds = float(np.median([before for before, _ in pairs]))
    return Row(name, "x", harness.spread(ratios), note=f"{1000 * seconds / steps:.1f} ms per step bare", values=ratios)


def _pairs(key: str, bare: Epoch, other: Epoch, rounds: int) -> list[tuple[float, float]]:
    def report_pair(index: int, before: float, after: float) -> None:
        harness.progress(f"  {key} {index + 1}/{rounds}: {before:.2f} s bare, {after:.2f} s")

    return harness.pairs(bare, other, count=rounds, on_pair=report_pair)


def _count(path: str) -> tuple[int, int]:
    """Return the number of losses, weights and gradients of a run, at least one of each, and how many have values."""
    run, expected, found = leadline.open_run(path), 0, 0
    for collection in ("losses", "weights", "gradients"):
        names = run.tensor_names(collection=collection)
        expected += max(1, len(names))
        found += sum(bool(run.tensor(name).steps()) for name in names)
    return expected, found


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
