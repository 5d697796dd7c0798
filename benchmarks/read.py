"""Reading runs: one statistic of a long run, all statistics of many tensors, and raw tensors beside NumPy and smdebug.

Each measurement opens the run again; files are in the page cache. The rows from S3 read from moto's server on this
machine with an empty cache of Leadline's, so that everything is fetched; they contain the time of that server. The rows
of raw tensors are ratios: Leadline against one ``.npy`` file per step, mapped with ``numpy.load(mmap_mode="r")`` and
copied, and against smdebug 1.0.34, which reads in ``.venvs/smdebug`` what ``leadline export --to smdebug`` writes, and
times itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import harness
import moto_s3
import numpy as np
from harness import Limit, Row

import leadline
from leadline.remote.upload import Upload
from leadline.store.upload_state import UploadState, write_upload
from leadline.testing.runs import Capture, RawTensors, RunWriter

STEPS, QUICK_STEPS = 100_000, 5_000
TENSORS, QUICK_TENSORS = 500, 50
CAPTURES, QUICK_CAPTURES = 1_000, 100
SHAPE = (64, 64)
STATISTICS = ("min", "max", "mean", "std", "l2")
SMDEBUG = harness.PROJECT / ".venvs" / "smdebug" / "bin" / "python"
_SMDEBUG_READS = """
import sys, time
from smdebug.trials import create_trial
began = time.perf_counter()
tensor = create_trial(sys.argv[1]).tensor("w")
for step in tensor.steps():
    tensor.value(step)
print(len(tensor.steps()), time.perf_counter() - began)
"""


def long_run(folder: Path, steps: int) -> Path:
    """Write a run with a loss at each step, as the writer does: in batches of some hundred rows."""
    writer = RunWriter(folder / "long", batch_rows=250)
    writer.write_all([Capture(step, {"loss": {"value": step / 7}}) for step in range(steps)])
    return Path(writer.end().path)


def wide_run(folder: Path, tensors: int, captures: int) -> Path:
    """Write a run with statistics of many tensors."""
    writer = RunWriter(folder / "wide", batch_rows=8)
    names = [f"layers.{index}.weight" for index in range(tensors)]
    values = {name: dict.fromkeys(STATISTICS, 0.5) for name in names}
    for step in range(captures):
        writer.write_all([Capture(step, values)])
    return Path(writer.end().path)


def raw_run(folder: Path, captures: int) -> tuple[Path, list[Path]]:
    """Write a run with one raw tensor per step, and the same as ``.npy`` files."""
    writer, files = RunWriter(folder / "raw"), []
    (folder / "npy").mkdir()
    for step in range(captures):
        array = np.full(SHAPE, step, np.float32)
        writer.write_all(
            [Capture(step, {"w": {"max": float(step)}}), RawTensors(step, {"w": ("F32", SHAPE, array.tobytes())})]
        )
        files.append(folder / "npy" / f"{step}.npy")
        np.save(files[-1], array)
    return Path(writer.end().path), files


def read_statistic(place: str | Path) -> int:
    return int(leadline.open_run(place).tensor("loss").statistics("value").num_rows)


def read_all_statistics(place: str | Path) -> int:
    run = leadline.open_run(place)
    return sum(run.tensor(name).table().num_rows for name in run.tensor_names("weights"))


def read_raw(place: str | Path) -> int:
    tensor = leadline.open_run(place).tensor("w")
    return sum(int(tensor.value(step)[0, 0]) == step for step in tensor.steps())


def timed(name: str, read: Callable[[], int], expected: int, rounds: int, limit: Limit | None = None) -> Row:
    """Return the row of something that is read some times, after once that does not count."""
    found: list[int] = []
    read()
    seconds = [harness.elapsed_seconds(lambda: found.append(read())) for _ in range(rounds)]
    harness.progress(f"{name}: {min(seconds):.3f} s")
    times_ms = [1e3 * value for value in seconds]
    return Row(name, "ms", harness.spread(times_ms), limit, expected * rounds, sum(found), values=tuple(times_ms))


def from_store(folder: Path, run: Path, name: str, tensor: str, statistic: str, rounds: int) -> tuple[Row, Row]:
    """Return the rows of one statistic that is read from S3 with an empty cache: its time, and what was fetched."""
    fetched_mb: list[float] = []
    expected = leadline.open_run(run).tensor(tensor).statistics(statistic).num_rows
    with moto_s3.serve() as bucket:
        uri = f"{bucket}/{run.name}"
        write_upload(str(run), UploadState(uri))
        upload = Upload(str(run))
        upload.advance(is_final=True)
        assert upload.state.is_complete, upload.state.error

        def read() -> int:
            os.environ["LEADLINE_CACHE"] = cache = tempfile.mkdtemp(dir=folder)
            try:
                return int(leadline.open_run(uri).tensor(tensor).statistics(statistic).num_rows)
            finally:
                fetched_mb.append(sum(file.stat().st_size for file in Path(cache).rglob("*") if file.is_file()) / 1e6)
                shutil.rmtree(os.environ.pop("LEADLINE_CACHE"))

        row = timed(f"{name}, S3, nothing cached", read, expected, rounds, Limit(1000.0))
        return row, Row(f"{name}, fetched from S3", "MB", harness.spread(fetched_mb), values=tuple(fetched_mb))


def beside_numpy(run: Path, files: list[Path], rounds: int) -> Row:
    """Return the row of raw tensors against mapped ``.npy`` files."""
    found: list[int] = []

    def read_files() -> int:
        return sum(int(np.array(np.load(file, mmap_mode="r"))[0, 0]) == step for step, file in enumerate(files))

    measured = harness.pairs(
        lambda: harness.elapsed_seconds(read_files),
        lambda: harness.elapsed_seconds(lambda: found.append(read_raw(run))),
        count=rounds,
    )
    ratios = [ours / theirs for theirs, ours in measured]
    name = f"one raw tensor, {len(files):,} steps, against mapped .npy files"
    return Row(name, "x", harness.spread(ratios), None, len(files) * len(found), sum(found), values=tuple(ratios))


def beside_smdebug(folder: Path, run: Path, files: list[Path], rounds: int) -> Row:
    """Return the row of raw tensors, read by Leadline against smdebug's own reader."""
    name = f"one raw tensor, {len(files):,} steps, against smdebug 1.0.34"
    if not SMDEBUG.exists():
        return Row(name, "x", None, note="no .venvs/smdebug: scripts/setup benchmarks")
    trial = folder / "trial"
    words = [harness.LEADLINE, "export", str(run), "--to", "smdebug", "-o", str(trial)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    found: list[int] = []

    def smdebug() -> float:
        words = [str(SMDEBUG), "-c", _SMDEBUG_READS, str(trial)]
        output = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
        found.append(int(output[-2]))
        return float(output[-1])

    measured = harness.pairs(
        smdebug, lambda: harness.elapsed_seconds(lambda: found.append(read_raw(run))), count=rounds
    )
    ratios = [leadline_seconds / smdebug_seconds for smdebug_seconds, leadline_seconds in measured]
    return Row(name, "x", harness.spread(ratios), None, len(files) * len(found), sum(found), values=tuple(ratios))


def main() -> int:
    parser = harness.arguments(__doc__, rounds=10, quick_rounds=2)
    options = parser.parse_args()
    rounds, started, quick = harness.rounds_of(options), harness.machine(), options.quick
    steps = QUICK_STEPS if quick else STEPS
    tensors, captures = (QUICK_TENSORS, QUICK_CAPTURES) if quick else (TENSORS, CAPTURES)
    harness.RESULTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=harness.RESULTS) as scratch:
        folder = Path(scratch)
        long, (raw, files) = long_run(folder, steps), raw_run(folder, captures)
        wide = wide_run(folder, tensors, captures)
        rows = [
            timed(f"one statistic, {steps:,} steps", lambda: read_statistic(long), steps, rounds, Limit(100.0)),
            *from_store(folder, long, f"one statistic, {steps:,} steps", "loss", "value", rounds),
            *from_store(
                folder,
                wide,
                f"one of {len(STATISTICS)} statistics of one of {tensors} tensors, {captures:,} steps",
                "layers.0.weight",
                STATISTICS[0],
                rounds,
            ),
            timed(
                f"{len(STATISTICS)} statistics of {tensors} tensors, {captures:,} steps",
                lambda: read_all_statistics(wide),
                tensors * captures,
                rounds,
            ),
            beside_numpy(raw, files, rounds),
            beside_smdebug(folder, raw, files, rounds),
        ]
        return harness.report("read", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
