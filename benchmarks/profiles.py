"""What a profiling window costs and leaves, against the bare profilers that it uses.

Each window covers two steps of the transformer; the bare profiler the same two, with its own way to write the result
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

from leadline.frameworks.torch.naming.module_names import ModuleNames
from leadline.frameworks.torch.naming.module_registry import ModuleRegistry
from leadline.frameworks.torch.naming.parameter_names import ParameterNames
from leadline.frameworks.torch.timing.operators import OperatorRecording
from leadline.records.profile_window import ProfileWindow
from leadline.training.guard import Guard
from leadline.training.profiler.callstacks import open_callstacks
from leadline.training.profiler.functions import open_functions
from leadline.training.recording import Recording

STEPS = 2


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of window, and its profiler bare."""

    key: str
    name: str
    open: Callable[[workload.Workload], Recording]
    bare: Callable[[workload.Workload, Path], None]


def operators(trained: workload.Workload) -> Recording:
    """A detailed window."""
    module_names = ModuleNames(ParameterNames(ModuleRegistry()))
    module_names.add_trained([trained.model])
    return OperatorRecording(ProfileWindow("detailed", steps=STEPS), module_names, Guard(fail))


def fail(failure: str) -> None:
    """A window of a benchmark must not fail."""
    raise RuntimeError(failure)


def bare_operators(trained: workload.Workload, folder: Path) -> None:
    """torch.profiler as its documentation shows it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
        train(trained)
    profile.export_chrome_trace(str(folder / "trace.json.gz"))


def bare_functions(trained: workload.Workload, folder: Path) -> None:
    """cProfile."""
    profile = cProfile.Profile()
    profile.enable()
    train(trained)
    profile.disable()
    profile.dump_stats(folder / "stats")


def bare_callstacks(trained: workload.Workload, folder: Path) -> None:
    """pyinstrument at the same interval."""
    import json

    import pyinstrument

    profiler = pyinstrument.Profiler(interval=0.001, async_mode="disabled")
    profiler.start()
    train(trained)
    (folder / "session.json").write_text(json.dumps(profiler.stop().to_json()))


CASES = (
    Case("detailed", "detailed against torch.profiler", operators, bare_operators),
    Case(
        "cprofile",
        "cprofile against cProfile",
        lambda trained: open_functions(ProfileWindow("cprofile", steps=STEPS)),
        bare_functions,
    ),
    Case(
        "pyinstrument",
        "pyinstrument against pyinstrument",
        lambda trained: open_callstacks(ProfileWindow("pyinstrument", steps=STEPS)),
        bare_callstacks,
    ),
)


def train(trained: workload.Workload, recording: Recording | None = None) -> None:
    """The steps of a window, with the marks that a watched training gives."""
    for step in range(STEPS):
        if recording is not None and step:
            recording.enter(step, "train")
        trained.step(None if recording is None else lambda: recording.mark("optimizer"))


def window(case: Case, trained: workload.Workload, folder: Path) -> None:
    """A window from its begin to its files."""
    recording = case.open(trained)
    recording.begin(0)
    train(trained, recording)
    recording.end(STEPS, "train")(str(folder))


def size(folder: Path) -> int:
    """The bytes of all files."""
    return sum(each.stat().st_size for each in folder.iterdir())


def measure(case: Case, rounds: int, scratch: Path) -> list[Row]:
    """Two rows: the window against its profiler, and against no profiler."""
    trained = workload.transformer()
    train(trained)
    sizes: dict[str, int] = {}

    def block(how: str, run: Callable[[Path], None]) -> float:
        folder = Path(tempfile.mkdtemp(dir=scratch))
        seconds = harness.elapsed_seconds(lambda: run(folder))
        sizes[how] = size(folder)
        shutil.rmtree(folder)
        return seconds

    def ours() -> float:
        return block("ours", lambda folder: window(case, trained, folder))

    block("ours", lambda folder: window(case, trained, folder))  # the first loads libraries
    against = {"bare": lambda folder: case.bare(trained, folder), "off": lambda folder: train(trained)}
    rows = []
    for how, run in against.items():
        times = harness.pairs(
            lambda run=run, how=how: block(how, run),
            ours,
            count=rounds,
            on_pair=lambda index, a, b, how=how: harness.progress(f"  {case.key}/{how} {index + 1}: x{b / a:.3f}"),
        )
        values = [b / a for a, b in times]
        name = case.name if how == "bare" else f"{case.key} against the same steps without"
        note = f"{sizes['ours']:,} bytes a window"
        if how == "bare":
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
