"""The parts of ``gpu_check.py``, each of which runs in a process of its own."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

import harness
from harness import Row

if TYPE_CHECKING:
    from gpu_transformer import Size

LEADLINE: Final = (sys.executable, "-m", "leadline")
STOPPED_STATUS: Final = 10
BAD_STEP: Final = 30
GPU_RULES: Final = (
    "gpu_throttling",
    "low_gpu_utilization:patience=0,window=50",
    "gpu_memory_increase:patience=0,window=25",
    "batch_size:patience=0,window=50",
    "hardware_utilization:patience=0,window=50",
    "cpu_bottleneck:patience=0",
    "io_bottleneck:patience=0",
)
"""All rules on one GPU, with windows that a short training fills."""
_RULES_SECONDS: Final = 15.0
_PAIR_SECONDS: Final = {5: 3.0, 50: 4.0, 200: 4.0}
"""How long a row is measured, by the length of its steps in ms."""
_SETUP_SECONDS: Final = 15.0
"""What it takes to make a training of a length of step, at least."""
_ROW_SECONDS: Final = 4.0
"""What a row takes beside its steps: runs are opened, closed and read."""
_COMPILERS: Final = ("gcc", "cc", "clang")
_NO_TIME: Final = "left out: no time"
LATE: Final = "did not end in its time"


class SkippedError(Exception):
    """A part cannot run here; the message says why."""


class FailedError(Exception):
    """What a part checks is not true; the message says what."""


@dataclass(slots=True)
class Result:
    """What a part has found so far; it is written at each figure, so that a part that is ended leaves it."""

    path: Path
    device: str
    is_quick: bool
    end: float
    """When the part has to be done, as ``time.monotonic``."""
    figures: dict[str, Any] = field(default_factory=dict)
    status: str = "failed"
    reason: str = ""

    @property
    def left_seconds(self) -> float:
        return self.end - time.monotonic()

    def add(self, **figures: Any) -> None:
        """Add figures by name."""
        self.figures |= figures
        self.write()

    def add_row(self, row: Row) -> None:
        """Add the figures of a row."""
        spread = row.spread
        figures = {"median": spread.median, "low": spread.low, "high": spread.high, "n": spread.n} if spread else {}
        stored = {} if row.asked is None else {"found": row.found, "expected": row.asked}
        limit = {"limit": str(row.limit), "met": row.verdict} if row.limit else {}
        self.add(**{row.name: {**figures, "unit": row.unit, **limit, **stored, "note": row.note}})

    def write(self) -> None:
        """Write the file."""
        document = {"status": self.status, "reason": self.reason, "figures": self.figures}
        self.path.write_text(json.dumps(document, default=str))


def card(result: Result) -> None:
    """Describe the GPU and its software."""
    import torch

    result.add(torch=torch.__version__, cuda=torch.version.cuda, hip=torch.version.hip, jax=_version("jax"))
    if not torch.cuda.is_available():
        return
    properties = torch.cuda.get_device_properties(0)
    result.add(
        name=properties.name,
        count=torch.cuda.device_count(),
        memory_bytes=properties.total_memory,
        capability=".".join(map(str, torch.cuda.get_device_capability(0))),
        driver=_driver_version(),
    )


def tests(result: Result) -> None:
    """Run ``tests/gpu``."""
    report = result.path.with_suffix(".xml")
    command = [sys.executable, "-m", "pytest", "tests/gpu", "-q", "--noconftest", f"--junit-xml={report}"]
    subprocess.run([*command, "-p", "no:cacheprovider"], cwd=harness.PROJECT, check=False)
    if not report.exists():
        raise FailedError("pytest wrote no report")
    cases = list(ElementTree.parse(report).iter("testcase"))
    bad = [case.get("name") for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    result.add(tests=len(cases), skipped=skipped, failed=bad)
    if bad or skipped or not cases:
        raise FailedError(f"{len(bad)} of {len(cases)} tests failed, {skipped} were skipped")


def stopped_nan(result: Result) -> None:
    """Stop a training on the device whose loss becomes NaN."""
    began = time.monotonic()
    options = ["--on", "exploding_tensor=stop_training"]
    with tempfile.TemporaryDirectory(prefix="leadline-gpu-") as folder:
        status, shown = launch(folder, options, result, ["--seconds", "600", "--bad-step", str(BAD_STEP)])
    found = next((rule for rule in shown["rules"] if rule["name"] == "exploding_tensor"), {"findings": []})
    finding = next(iter(found["findings"]), {})
    result.add(
        exit_status=status,
        bad_step=BAD_STEP,
        found_step=finding.get("step"),
        message=finding.get("message"),
        trained_steps=shown["steps"].get("train"),
        seconds=round(time.monotonic() - began, 1),
    )
    if status != STOPPED_STATUS or finding.get("step") != BAD_STEP:
        raise FailedError(f"ended with status {status}, and step {finding.get('step')} was found instead of {BAD_STEP}")


def gpu_rules(result: Result) -> None:
    """Sample the GPU with NVML during a training, and evaluate the rules on GPUs."""
    import leadline
    from leadline.monitor.gpu import METRICS

    options = ["--interval-ms", "100", "--no-default-rules"]
    options += [option for rule in GPU_RULES for option in ("--rule", rule)]
    with tempfile.TemporaryDirectory(prefix="leadline-gpu-") as folder:
        status, shown = launch(folder, options, result, ["--seconds", str(_RULES_SECONDS)])
        rows = leadline.open_run(Path(folder, "run")).system_metrics(kind="gpu").to_pylist()
    samples = {name: [row["value"] for row in rows if row["metric"] == name] for name in METRICS}
    means = {name: round(sum(values) / len(values), 2) for name, values in samples.items() if values}
    verdicts = {rule["name"]: rule["verdict"] for rule in shown["rules"]}
    absent = [name for name in METRICS if name not in means]
    result.add(exit_status=status, samples=len(rows), means=means, absent=absent, verdicts=verdicts)
    undecided = [name for name, verdict in verdicts.items() if verdict not in ("clear", "fired")]
    if status or not rows or undecided or len(verdicts) < len(GPU_RULES):
        raise FailedError(f"{len(rows)} samples of the GPU; without a verdict: {', '.join(undecided) or 'none'}")


def memory(result: Result) -> None:
    """Measure the peak of the device's memory, bare and watched."""
    import torch
    from contenders import Bare
    from gpu_transformer import CUDA_SIZES, KINDS, Blocks, Kind, Training

    with tempfile.TemporaryDirectory(prefix="scratch-", dir=results()) as scratch:
        for size in CUDA_SIZES[1:]:
            training = Training(size, "eager", "cuda")
            training.calibrate()
            blocks = Blocks(training, Path(scratch))
            for kind in (Kind("bare", Bare, 20), *KINDS):
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
                blocks.train(kind.make(), 20, kind)
                peak = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
                mib = {f"{name}_mib": round(value / 2**20, 1) for name, value in peak.items()}
                result.add(**{f"{size.step_ms:g} ms, {kind.name}": mib})


def synchronization(result: Result) -> None:
    """Count the synchronizing driver calls that Leadline adds (``cuda_trace.py``)."""
    file = result.path.with_suffix(".rows.json")
    command = [sys.executable, str(harness.HERE / "cuda_trace.py"), "--rounds", "2", "--json", str(file)]
    is_late = False
    try:
        subprocess.run([*command, "--scratch", str(results())], check=False, timeout=result.left_seconds)
    except subprocess.TimeoutExpired:
        is_late = True
    rows = [harness.row_from_dict(row) for row in json.loads(file.read_text())["rows"]] if file.exists() else []
    for row in rows:
        result.add_row(row)
    waits = [row for row in rows if row.name.startswith("waits: ")]
    if not waits or (is_late and len(waits) == len(rows)):
        raise FailedError(f"cuda_trace.py measured {len(rows)} rows{' in its time' if is_late else ''}")
    waiting = [row.name.removeprefix("waits: ") for row in waits if row.verdict != "yes"]
    if waiting:
        raise FailedError(f"Leadline waits for the device: {', '.join(waiting)}")


def transformer(result: Result, *, mode: str) -> None:
    """Measure the rows of the transformer in a mode, at steps of several lengths."""
    from gpu_transformer import CPU_SIZES, CUDA_SIZES

    has_gpu = result.device == "cuda"
    if mode == "compiled" and has_gpu and not any(map(shutil.which, _COMPILERS)):
        raise SkippedError(f"torch.compile needs a compiler: none of {', '.join(_COMPILERS)} is installed")
    sizes, backend = (CUDA_SIZES, "inductor") if has_gpu else (CPU_SIZES, "eager")
    incomplete = []
    for size in sizes[:1] if result.is_quick else sizes:
        if result.left_seconds < _SETUP_SECONDS:
            result.add(**{f"{size.step_ms:g} ms": _NO_TIME})
        else:
            incomplete += measure_size(result, size, mode, backend)
    if incomplete:
        raise FailedError("; ".join(incomplete))


def measure_size(result: Result, size: Size, mode: str, backend: str) -> list[str]:
    """Measure the rows of one length of a step; return those of which not everything was stored."""
    import torch
    from gpu_transformer import KINDS, Blocks, Training

    torch.cuda.empty_cache()
    training, incomplete = Training(size, mode, result.device), []
    training.calibrate()
    training.prepare(backend)
    result.add(**{f"{size.step_ms:g} ms": training.description()})
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=results()) as scratch:
        blocks = Blocks(training, Path(scratch))
        for kind in KINDS:
            name = f"{size.step_ms:g} ms, {kind.name}"
            if 3 * blocks.expected_seconds(kind) + _ROW_SECONDS > result.left_seconds:  # two pairs and a warm-up
                result.add(**{name: _NO_TIME})
                continue
            row = blocks.measure(name, kind, 0.0 if result.is_quick else _PAIR_SECONDS[int(size.step_ms)])
            result.add_row(row)
            incomplete += [] if row.counts else [f"{name}: {row.found} of {row.asked} values stored"]
    return incomplete


def jax(result: Result) -> None:
    """Train with JAX on the GPU, bare and with the preset standard (``jax_steps.py``)."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # two processes share the GPU
    missing = [name for name in ("jax", "optax") if importlib.util.find_spec(name) is None]
    if missing:
        raise SkippedError(f"not installed: {', '.join(missing)}")
    import jax
    import jax_steps
    import watched_epochs

    if jax.default_backend() != "gpu":
        raise SkippedError(f"this JAX has no GPU: its backend is {jax.default_backend()}")
    result.add(version=jax.__version__, device=str(jax.devices()[0]))
    row = watched_epochs.measure(
        "jax",
        "preset standard",
        None,
        str(harness.HERE / "jax_steps.py"),
        preset="standard",
        rounds=1 if result.is_quick else 2,
        steps=jax_steps.STEPS,
    )
    result.add_row(row)
    if not row.counts:
        raise FailedError(f"{row.found} of {row.asked} losses, weights and gradients stored")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the check."""

    name: str
    work: Callable[[Result], None]
    limit_seconds: float
    needs_gpu: bool = False


PARTS: Final = (
    Part("card", card, 60),
    Part("tests", tests, 90, needs_gpu=True),
    Part("nan-stopped", stopped_nan, 60),
    Part("eager", partial(transformer, mode="eager"), 95),
    Part("synchronization", synchronization, 75, needs_gpu=True),
    Part("memory", memory, 40, needs_gpu=True),
    Part("gpu-rules", gpu_rules, 45, needs_gpu=True),
    Part("jax", jax, 60, needs_gpu=True),
    Part("amp", partial(transformer, mode="amp"), 80),
    Part("graphs", partial(transformer, mode="graphs"), 80, needs_gpu=True),
    Part("compiled", partial(transformer, mode="compiled"), 120),
)
"""In the order in which they run: what is left out where the time is short comes last."""


def launch(folder: str, options: Sequence[str], result: Result, arguments: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """Run ``gpu_training.py`` under ``leadline run``; return the exit status and what ``leadline show`` says."""
    script = str(harness.HERE / "gpu_training.py")
    command = [*LEADLINE, "run", "--out", folder, "--name", "run", *options, "--", sys.executable, script]
    status = subprocess.run([*command, result.device, *arguments], check=False, timeout=result.left_seconds).returncode
    shown = subprocess.run(
        [*LEADLINE, "show", "--json", str(Path(folder, "run"))], check=True, capture_output=True, text=True
    )
    return status, json.loads(shown.stdout)


def results() -> Path:
    """Return the folder of results, on the disk to measure."""
    harness.RESULTS.mkdir(parents=True, exist_ok=True)
    return harness.RESULTS


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _driver_version() -> str | None:
    import pynvml

    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=[part.name for part in PARTS])
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that scratch folders are removed
    part = next(part for part in PARTS if part.name == options.part)
    result = Result(options.result, options.device, options.quick, time.monotonic() + options.seconds)
    try:
        part.work(result)
        result.status = "ok"
    except SkippedError as error:
        result.status, result.reason = "skipped", str(error)
    except FailedError as error:
        result.reason = str(error)
    except subprocess.TimeoutExpired:
        result.reason = LATE
    result.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
