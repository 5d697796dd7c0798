"""Processor time that watching adds to a training step, and the overhead that Leadline itself reports for it.

One process trains the same model in blocks, bare and watched in turn (``leadline.torch.Hook`` attaches before a watched
block and detaches after it). A block is a number of first steps, steps that are not measured, and settled steps. For
each model there are three rows per preset:

* ``a step``: the median settled step, watched minus bare, in us of the training's thread. Steps that capture
  statistics are few, so this is a step that captures its loss alone.
* ``settled``: the mean settled step with its captures, as a ratio: the step's length and the processor time that all
  threads take beyond the bare training, over its length.
* ``first N``: the same for the first steps of a run, with everything that is set up once.

One row per model, ``facts``, has what facts about loss calls and layers, which structural rules read, add to a train
step that has them: the first two of a run. Both blocks are watched here and capture the other checks of the loop.

Steps are made longer by sleeping, so that the difference of processor times is not lost in the noise of a computation.
The note has what is seen in the training's thread and what Leadline reports, both in us per step, and their ratio.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import harness
import torch
from harness import Limit, Row
from torch import nn
from workload import Workload

import leadline.torch
from leadline.records.loss_facts import FACT_STEPS

MODULES = (5, 50, 200, 1000)
STEP_MS = (0.3, 3.0, 30.0, 300.0)
PRESETS = ("light", "standard")
_STEP_LIMIT_US = 35.0
"""25 us for a step at which nothing is captured, and 10 us for its loss."""
_RATIO_LIMIT = 1.02
_LIMITED_FROM_MS = 5.0
_TOLERANCE = 2.0
"""A model that alone takes longer than this multiple of the step's size is left out."""
_WIDTH = 16
_OTHER_CHECKS = f"checks:regex=zero_grad,every=1,end={FACT_STEPS - 1}"
_FACTS = f"checks:regex=/(activation|consecutive_linear)$,every=1,end={FACT_STEPS - 1}"
"""The capture of what the first train steps show of loss calls and layers."""
_FACTS_BLOCKS = 4
"""Pairs of blocks per round: the first steps of a run vary by far more than what the facts cost."""
_FACTS_LIMIT_US = 1000.0


@dataclass(frozen=True, slots=True)
class Blocks:
    """Numbers of steps in a block."""

    first: int
    unmeasured: int
    settled: int

    @classmethod
    def of(cls, step_ms: float, *, is_quick: bool) -> Blocks:
        """Return the blocks for steps of a size: fewer of long ones."""
        if step_ms > 100:
            return cls(10, 0, 5) if is_quick else cls(50, 10, 30)
        if step_ms > 10:
            return cls(30, 0, 20) if is_quick else cls(200, 0, 100)
        return cls(200, 100, 200)


class Padded(Workload):
    """A chain of small layers; its steps sleep until they are as long as asked, which takes no processor time."""

    def __init__(self, modules: int) -> None:
        torch.manual_seed(0)
        chain = [layer for _ in range(modules // 2) for layer in (nn.Linear(_WIDTH, _WIDTH), nn.Tanh())]
        model = nn.Sequential(*chain[: modules - 2], nn.Linear(_WIDTH, 4))
        batches = [(torch.randn(8, _WIDTH), torch.randint(0, 4, (8,))) for _ in range(16)]
        super().__init__(model, torch.optim.SGD(model.parameters(), lr=1e-3), batches)
        self._sleep_seconds = 0.0

    def pad_to(self, step_ms: float) -> bool:
        """Make a step take so long; return False if the model alone takes longer."""
        self._sleep_seconds = 0.0
        alone_ms = statistics.median(self.times(50)) / 1e6
        self._sleep_seconds = max(step_ms - alone_ms, 0.0) / 1e3
        return alone_ms <= _TOLERANCE * step_ms

    def times(self, steps: int) -> list[int]:
        """Train some steps; return the processor time of each in the training's thread, in ns."""
        times, clock = [], time.thread_time_ns
        began = clock()
        for _ in range(steps):
            if self._sleep_seconds:
                time.sleep(self._sleep_seconds)
            self.step()
            now = clock()
            times.append(now - began)
            began = now
        return times


@dataclass(frozen=True, slots=True)
class Part:
    """The measured steps of one part of a block."""

    times_ns: list[int]
    process_ns: int
    """Of all threads."""
    reported_ns: int

    @property
    def mean_ns(self) -> float:
        return statistics.fmean(self.times_ns)

    @property
    def median_ns(self) -> float:
        return statistics.median(self.times_ns)


class Bench:
    """Measures blocks of one model."""

    def __init__(self, training: Padded, blocks: Blocks, scratch: Path) -> None:
        self._training, self._blocks, self._scratch = training, blocks, scratch

    def block(self, preset: str | None, capture: Sequence[str] = ()) -> tuple[Part, Part]:
        """Train a block; return its first and its settled steps.

        Args:
            preset: None: bare.
            capture: What is captured besides.
        """
        blocks, hook = self._blocks, None
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        if preset is not None:
            hook = leadline.torch.Hook(out=str(folder), name="run", preset=preset, capture=capture)
        gc.collect()
        first = self._part(blocks.first, hook)
        self._training.times(blocks.unmeasured)
        settled = self._part(blocks.settled, hook)
        if hook is not None:
            hook.close()
        shutil.rmtree(folder)
        return first, settled

    def _part(self, steps: int, hook: leadline.torch.Hook | None) -> Part:
        reported = hook.own_seconds if hook is not None else 0.0
        process_ns = time.process_time_ns()
        times = self._training.times(steps)
        process_ns = time.process_time_ns() - process_ns
        reported = hook.own_seconds - reported if hook is not None else 0.0
        return Part(times, process_ns, int(reported * 1e9))


def measure(modules: int, step_ms: float, preset: str, rounds: int, bench: Bench) -> Iterator[Row]:
    """Yield the rows of one model and preset: alternating bare and watched blocks."""
    measured: list[tuple[tuple[Part, Part], tuple[Part, Part]]] = []
    for index in range(-1, rounds):
        order = (None, preset) if index % 2 else (preset, None)
        blocks = {kind: bench.block(kind) for kind in order}
        if index >= 0:
            measured.append((blocks[None], blocks[preset]))
    label = f"{step_ms:g} ms, {modules:,} modules, {preset}"
    settled = [(bare[1], watched[1]) for bare, watched in measured]
    first = [(bare[0], watched[0]) for bare, watched in measured]
    added_us = [(watched.median_ns - bare.median_ns) / 1e3 for bare, watched in settled]
    bare_ms = statistics.median(bare.median_ns for bare, _ in settled) / 1e6
    details = {"modules": modules, "step_ms": step_ms, "preset": preset}
    yield Row(
        f"{label}: a step",
        "us",
        harness.spread(added_us),
        Limit(_STEP_LIMIT_US),
        note=f"bare step {bare_ms:.3g} ms",
        values=tuple(added_us),
        details=details,
    )
    for name, pairs in (("settled", settled), (f"first {len(first[0][0].times_ns)}", first)):
        length_ns = step_ms * 1e6
        ratios = [
            1 + (watched.process_ns - bare.process_ns) / len(bare.times_ns) / length_ns for bare, watched in pairs
        ]
        is_limited = name == "settled" and step_ms >= _LIMITED_FROM_MS
        yield Row(
            f"{label}: {name}",
            "x",
            harness.spread(ratios),
            Limit(_RATIO_LIMIT) if is_limited else None,
            note=_compare(pairs),
            values=tuple(ratios),
            details=details,
        )


def measure_facts(modules: int, rounds: int, training: Padded, scratch: Path) -> Row:
    """Return the row of what facts add to a step that has them, and to later steps."""
    bench, pairs = Bench(training, Blocks(first=FACT_STEPS, unmeasured=10, settled=50), scratch), []
    for index in range(-1, rounds * _FACTS_BLOCKS):
        order = (_OTHER_CHECKS, _FACTS) if index % 2 else (_FACTS, _OTHER_CHECKS)
        blocks = {capture: bench.block("light", [_OTHER_CHECKS, capture]) for capture in order}
        if index >= 0:
            pairs.append((blocks[_OTHER_CHECKS], blocks[_FACTS]))
    added_us = [(given[0].mean_ns - plain[0].mean_ns) / 1e3 for plain, given in pairs]
    later_us = statistics.median((given[1].median_ns - plain[1].median_ns) / 1e3 for plain, given in pairs)
    return Row(
        f"{modules:,} modules: facts",
        "us",
        harness.spread(added_us),
        Limit(_FACTS_LIMIT_US),
        note=f"later steps {later_us:+.1f} us",
        values=tuple(added_us),
        details={"modules": modules},
    )


def _compare(pairs: list[tuple[Part, Part]]) -> str:
    """Return what is seen in the training's thread and what is reported, as medians over the rounds."""
    seen_us = statistics.median(watched.mean_ns - bare.mean_ns for bare, watched in pairs) / 1e3
    reported_us = statistics.median(watched.reported_ns / len(watched.times_ns) for _, watched in pairs) / 1e3
    ratio = f"{reported_us / seen_us:.2f}" if seen_us > 0 else "-"
    return f"seen {seen_us:,.0f} us, reported {reported_us:,.0f} us ({ratio})"


def main() -> int:
    parser = harness.arguments(__doc__, rounds=10, quick_rounds=2)
    parser.add_argument("--modules", help="only these numbers of modules, separated by commas")
    parser.add_argument("--steps", help="only these step sizes in ms, separated by commas")
    parser.add_argument("--presets", default=",".join(PRESETS), help="only these presets, separated by commas")
    parser.add_argument("--no-facts", dest="facts", action="store_false", help="without the rows on facts")
    options = parser.parse_args()
    modules = [int(number) for number in options.modules.split(",")] if options.modules else MODULES
    sizes = [float(size) for size in options.steps.split(",")] if options.steps else STEP_MS
    if options.quick and options.steps is None:
        sizes = STEP_MS[:2]
    torch.set_num_threads(1)
    rounds, started = harness.rounds_of(options), harness.machine()
    rows: list[Row] = []
    harness.RESULTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=harness.RESULTS) as scratch:
        for count in modules:
            training = Padded(count)
            training.times(20)
            if options.facts:
                rows.append(measure_facts(count, rounds, training, Path(scratch)))
                harness.progress(f"{count:,} modules: facts measured")
            for step_ms in sizes:
                if not training.pad_to(step_ms):
                    harness.progress(f"{count:,} modules alone take longer than {step_ms:g} ms")
                    continue
                bench = Bench(training, Blocks.of(step_ms, is_quick=options.quick), Path(scratch))
                for preset in options.presets.split(","):
                    for row in measure(count, step_ms, preset, rounds, bench):
                        harness.progress(f"{row.name}: {row.spread.median if row.spread else 0:.3f}  {row.note}")
                        rows.append(row)
    return harness.report("true_cost", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
