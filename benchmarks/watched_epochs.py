"""Epochs that are trained with Leadline beside the same epochs without it, for the rows of ``frameworks.py``.

Each round has two new processes, which train in turn: a bare one, and one with a run that stays open: the same
training does not take equally long in every process.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import harness
import numpy as np
from harness import Limit, Row

import leadline
from leadline.hook import StandaloneRun
from leadline.training.recorder.budget import START_NS, Budget

EPOCHS: Final = 8
"""Epochs of a round on each side: captures are several epochs apart."""
_WARMUP: Final = 3
"""Epochs in which everything is compiled and captured."""
_SETTLING: Final = 12
"""Epochs after these: what is captured together for the first time is paid later."""

Epoch = Callable[[], float]
"""Trains one epoch and returns its seconds."""


def answer(make_epoch: Callable[[], Epoch], preset: str = "", folder: str = "") -> None:
    """Train an epoch for each line of the standard input, and print its seconds.

    With Leadline these are steady: the budget of the start, in which a short run is captured whole, is taken as spent.

    Args:
        make_epoch: Called once the run is open.
        preset: Leadline's preset; empty: the epochs are bare.
        folder: Where the run is written, and what was measured of it (``measured.json``).
    """
    if not preset:
        epoch = make_epoch()
        for _ in range(_WARMUP + _SETTLING):
            epoch()
        _train(epoch)
        return
    standalone = StandaloneRun(out=folder, name="run", preset=preset, capture=())
    assert standalone.session is not None
    peak, epoch = _peak_bytes(), make_epoch()
    first, second, *_ = [epoch() for _ in range(_WARMUP)]
    growth = _peak_bytes() - peak
    recorder = standalone.session.recorder
    assert recorder.budget is not None
    _spend_start(recorder.budget)
    for _ in range(_SETTLING):
        epoch()
    own_ns = recorder.cost.own_ns
    seconds = _train(epoch, recorder.budget)
    share = (recorder.cost.own_ns - own_ns) / 1e9 / max(seconds, 1e-9)
    standalone.close()
    expected, found = _count(standalone.run)
    measured = {
        "first": first,
        "second": second,
        "growth": growth,
        "share": share,
        "expected": expected,
        "found": found,
    }
    Path(folder, "measured.json").write_text(json.dumps(measured))


def _train(epoch: Epoch, budget: Budget | None = None) -> float:
    """Train the epochs that are asked for; return their seconds.

    Args:
        budget: Earns nothing while another process trains.
    """
    total, ended_ns = 0.0, time.perf_counter_ns()
    for _ in sys.stdin:
        if budget is not None and budget._settled is not None:
            earned_until_ns, step = budget._settled
            budget._settled = (earned_until_ns + time.perf_counter_ns() - ended_ns, step)
        seconds = epoch()
        ended_ns = time.perf_counter_ns()
        total += seconds
        print(seconds, flush=True)
    return total


def _spend_start(budget: Budget) -> None:
    """Make a budget that of a training in which the budget of the start, and what it saved, are spent."""
    budget._spent_ns = float(START_NS)
    budget._credit = budget._reserve = budget._debt_ns = 0.0


@contextmanager
def _epochs_of(script: str, *arguments: str) -> Iterator[Epoch]:
    """Start a script that calls ``answer``; yield what trains an epoch in it."""
    command = [sys.executable, script, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        given, answers = process.stdin, process.stdout
        assert given is not None
        assert answers is not None

        def epoch() -> float:
            print(file=given, flush=True)
            return float(answers.readline())

        yield epoch
        given.close()


def measure(
    key: str, name: str, limit: Limit | None, script: str, *arguments: str, preset: str, rounds: int, steps: int
) -> Row:
    """Return the row of epochs that are trained in turn without Leadline and with it, see ``answer``.

    The note has the second epoch, and what the first one takes beyond it.

    Args:
        script: A script that calls ``answer``, with these arguments, a preset and a folder.
        preset: Leadline's preset.
        steps: The number of steps of an epoch.
    """
    pairs: list[list[tuple[float, float]]] = []
    measured: list[dict[str, float]] = []
    for index in range(rounds):
        folder = tempfile.mkdtemp(prefix="leadline-epochs-")
        try:
            with _epochs_of(script, *arguments) as bare, _epochs_of(script, *arguments, preset, folder) as watched:
                pairs.append(harness.pairs(bare, watched, count=EPOCHS))
            measured.append(json.loads(Path(folder, "measured.json").read_text()))
        finally:
            shutil.rmtree(folder)
        bare_s, watched_s = np.mean(pairs[-1], axis=0)
        harness.progress(f"  {key} {index + 1}/{rounds}: {bare_s:.2f} s bare, {watched_s:.2f} s with Leadline")
    means = np.array(pairs).mean(axis=1)
    ratios, seconds = tuple((means[:, 1] / means[:, 0]).tolist()), float(means[:, 0].mean())
    first, second, growth, share = (float(np.median([row[of] for row in measured])) for of in _MEASURED)
    note = (
        f"{1000 * seconds / steps:.1f} ms per step bare; accounted overhead {100 * share:.1f} %; first captures "
        f"{first - second:.1f} s, peak memory + {growth / 2**20:.0f} MiB; second epoch {second / seconds:.2f}x"
    )
    expected, found = (int(measured[-1][of]) for of in ("expected", "found"))
    return Row(name, "x", harness.spread(ratios), limit, expected, found, note, ratios)


_MEASURED: Final = ("first", "second", "growth", "share")


def measure_peer(key: str, name: str, bare: Epoch, peer: Epoch, *, rounds: int, steps: int) -> Row:
    """Return the row of epochs that are trained in turn without and with a peer, or bare against bare.

    Args:
        steps: The number of steps of an epoch.
    """

    def report_pair(index: int, before: float, after: float) -> None:
        harness.progress(f"  {key} {index + 1}/{rounds}: {before:.2f} s bare, {after:.2f} s")

    pairs = harness.pairs(bare, peer, count=rounds, on_pair=report_pair)
    ratios = tuple(after / before for before, after in pairs)
    note = f"{1000 * float(np.median([before for before, _ in pairs])) / steps:.1f} ms per step bare"
    return Row(name, "x", harness.spread(ratios), note=note, values=ratios)


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
