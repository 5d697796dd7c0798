"""Cost and file size of profile windows, compared with the profilers that they use.

A window covers two steps of the transformer. The bare profiler covers the same steps and writes its result itself
(``export_chrome_trace``, ``dump_stats``, a session as JSON). Both times include writing.
"""

from __future__ import annotations

import cProfile
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import harness
import torch
import workload
from harness import Row

from leadline.frameworks.torch.naming.model_names import ModuleNames, ModuleRegistry, ParameterNames
from leadline.frameworks.torch.timing.operators import OperatorRecording
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.recording import Recording
from leadline.records.profile_window import ProfileWindow
from leadline.training.profiler.python_recording import open_callstacks, open_functions

STEPS = 2


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of profile window, and its bare profiler."""

    key: str
    name: str
    open: Callable[[workload.Workload], Recording]
    bare: Callable[[workload.Workload, Path], None]


def operators(training: workload.Workload) -> Recording:
    """Open a detailed window."""
    module_names = ModuleNames(ParameterNames(ModuleRegistry()))
    module_names.add_trained([training.model])
    return OperatorRecording(ProfileWindow("detailed", steps=STEPS), module_names, Guard(fail))


def fail(failure: str) -> None:
    """Raise the failure of a window."""
    raise RuntimeError(failure)


def bare_operators(training: workload.Workload, folder: Path) -> None:
    """Run torch.profiler as in its documentation."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
        train(training)
    profile.export_chrome_trace(str(folder / "trace.json.gz"))


def bare_functions(training: workload.Workload, folder: Path) -> None:
    """Run cProfile."""
    profile = cProfile.Profile()
    profile.enable()
    train(training)
    profile.disable()
    profile.dump_stats(folder / "stats")


def bare_callstacks(training: workload.Workload, folder: Path) -> None:
    """Run pyinstrument at the same interval."""
    import json

    import pyinstrument

    profiler = pyinstrument.Profiler(interval=0.001, async_mode="disabled")
    profiler.start()
    train(training)
    (folder / "session.json").write_text(json.dumps(profiler.stop().to_json()))


CASES = (
    Case("detailed", "detailed against torch.profiler", operators, bare_operators),
    Case(
        "cprofile",
        "cprofile against cProfile",
        lambda training: open_functions(ProfileWindow("cprofile", steps=STEPS)),
        bare_functions,
    ),
    Case(
        "pyinstrument",
        "pyinstrument against pyinstrument",
        lambda training: open_callstacks(ProfileWindow("pyinstrument", steps=STEPS)),
        bare_callstacks,
    ),
)


def train(training: workload.Workload, recording: Recording | None = None) -> None:
    """Train the steps of a window, with the calls that a recorded training makes."""
    for step in range(STEPS):
        if recording is not None and step:
            recording.enter(step, "train")
        training.step(None if recording is None else lambda: recording.mark("optimizer"))


def window(case: Case, training: workload.Workload, folder: Path) -> None:
    """Record a window and write its files."""
    recording = case.open(training)
    recording.begin(0)
    train(training, recording)
    recording.end(STEPS, "train")(str(folder))


def size(folder: Path) -> int:
    """Return the size of all files in bytes."""
    return sum(file.stat().st_size for file in folder.iterdir())


def measure(case: Case, rounds: int, scratch: Path) -> list[Row]:
    """Measure two rows: the window against its bare profiler, and against no profiler."""
    training = workload.transformer()
    train(training)
    sizes: dict[str, int] = {}

    def block(kind: str, run: Callable[[Path], None]) -> float:
        folder = Path(tempfile.mkdtemp(dir=scratch))
        seconds = harness.elapsed_seconds(lambda: run(folder))
        sizes[kind] = size(folder)
        shutil.rmtree(folder)
        return seconds

    def leadline_window() -> float:
        return block("leadline", lambda folder: window(case, training, folder))

    leadline_window()  # the first window loads libraries
    baselines = {"bare": lambda folder: case.bare(training, folder), "off": lambda folder: train(training)}
    rows = []
    for kind, run in baselines.items():
        times = harness.pairs(
            lambda run=run, kind=kind: block(kind, run),
            leadline_window,
            count=rounds,
            on_pair=lambda index, a, b, kind=kind: harness.progress(f"  {case.key}/{kind} {index + 1}: x{b / a:.3f}"),
        )
        values = [b / a for a, b in times]
        name = case.name if kind == "bare" else f"{case.key} against no profiler"
        note = f"{sizes['leadline']:,} bytes per window"
        if kind == "bare":
            note += f", {sizes['bare']:,} bare"
        rows.append(Row(name, "x", harness.spread(values), values=tuple(values), note=note, details={"key": case.key}))
    return rows


def main() -> int:
    options = harness.arguments(__doc__, rounds=12, quick_rounds=2).parse_args()
    rounds, started = harness.rounds_of(options), harness.machine()
    harness.RESULTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=harness.RESULTS) as scratch:
        rows = [row for case in CASES for row in measure(case, rounds, Path(scratch))]
    return harness.report("profiles", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
