"""Write throughput of the store: raw tensors compared with one write() of the same bytes, and rows of a series.

Both write from initialized memory into a new file on the same disk, alternately (ABBA); files are deleted in between.
The figure is relative throughput: 1.0x is as fast as one write(), more is faster. The rows with fsync compare with a
write() that has reached the device, as unbuffered writes have.
"""

from __future__ import annotations

import mmap
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import harness
from harness import Limit, Row

from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store import codec, layout
from leadline.store.segments import SegmentFolder
from leadline.store.tensors import CaptureForm, HostBuffer, TensorCapture, TensorFolder

LIMIT = Limit(0.8, at_least=True)
SIZES = (
    ("1 MB", 1_000_000, 1, 1),
    ("16 captures of 1 MB", 1_000_000, 16, 1),
    ("39 MB", 39_000_000, 1, 1),
    ("39 MB, 20 in a row", 39_000_000, 1, 20),
    ("200 MB", 200_000_000, 1, 1),
)
"""Label, bytes per capture, captures per call, and number of calls before files are deleted."""
TENSORS = 150
SERIES_WIDTH = 1200
"""150 tensors x 8 core statistics."""


def tensor_row(
    label: str, size: int, *, captures: int, in_a_row: int, rounds: int, scratch: Path, is_synced: bool
) -> Row:
    """Measure the throughput of ``captures`` of ``size`` bytes per call, in ``in_a_row`` calls."""
    elements = size // 4 // TENSORS
    slots = [(f"layer.{index}.weight", "F32", (elements,), 4 * elements) for index in range(TENSORS)]
    buffer = HostBuffer(CaptureForm(slots, "train"))
    # a repeated megabyte of random bytes, which no file system compresses
    _fill(buffer.memory, os.urandom(1 << 20))
    payload = bytes(buffer.memory[: buffer.form.header_bytes + buffer.form.data_bytes]) * captures
    stored: list[int] = []
    processor: dict[str, list[float]] = {"leadline": [], "write": []}

    def leadline() -> float:
        run = Path(tempfile.mkdtemp(dir=scratch))
        (run / layout.TENSORS).mkdir()
        folder = TensorFolder(str(run), "rank0-1")
        pending = [TensorCapture(buffer, step, time.time_ns()) for step in range(captures)]
        cpu_start = time.process_time()
        seconds = harness.elapsed_seconds(lambda: [folder.write(pending) for _ in range(in_a_row)])
        processor["leadline"].append((time.process_time() - cpu_start) / in_a_row)
        stored.append(_keys(run))
        shutil.rmtree(run)
        return seconds

    def one_write() -> float:
        paths = [scratch / f"plain-{index}" for index in range(in_a_row)]
        cpu_start = time.process_time()
        seconds = harness.elapsed_seconds(lambda: [_write_new(path, payload, is_synced=is_synced) for path in paths])
        processor["write"].append((time.process_time() - cpu_start) / in_a_row)
        for path in paths:
            path.unlink()
        return seconds

    times = harness.pairs(one_write, leadline, count=rounds)
    size_mb = in_a_row * len(payload) / 1e6
    plain = harness.spread([size_mb / seconds for seconds, _ in times]).median
    ours = harness.spread([size_mb / seconds for _, seconds in times]).median
    plain_ms, ours_ms = (1e3 * harness.spread(processor[name]).median for name in ("write", "leadline"))
    values = [plain_seconds / seconds for plain_seconds, seconds in times]
    return Row(
        f"tensors, {label}" + (", against write() + fsync" if is_synced else ""),
        "x",
        harness.spread(values),
        None if is_synced else LIMIT,
        asked=TENSORS * captures * in_a_row * len(stored),
        found=sum(stored),
        note=f"{ours:,.0f} MB/s against {plain:,.0f}; CPU time {ours_ms:.1f} ms against {plain_ms:.1f}",
        values=tuple(values),
        details={"seconds": times, "bytes": len(payload)},
    )


def series_row(rows_per_batch: int, *, rounds: int, scratch: Path) -> Row:
    """Measure the rows per second of a series of all core statistics of the transformer."""
    tensors = tuple(TensorInfo(f"layer.{index}.weight", ("weights",), (256, 256)) for index in range(150))
    statistics = ("min", "max", "sum", "mean", "l1", "l2", "abs_mean", "abs_max")
    names = SeriesLayout(tensors, tuple((index, statistic) for index in range(150) for statistic in statistics))
    schema, metadata = codec.series_schema(SERIES_WIDTH), codec.series_metadata(names)
    batches = max(1, 2000 // rows_per_batch)
    values, found = [], 0
    for _ in range(rounds):
        run = Path(tempfile.mkdtemp(dir=scratch))
        (run / layout.SERIES).mkdir()
        segment = SegmentFolder(str(run), layout.SERIES, "rank0-1").open(schema, metadata)

        def append() -> None:
            for sequence in range(batches):
                segment.append(sequence, rows_per_batch, _columns(sequence, rows_per_batch))  # noqa: B023

        seconds = harness.elapsed_seconds(append)
        segment.close()
        values.append(batches * rows_per_batch / seconds)
        found += _rows(run)
        shutil.rmtree(run)
    return Row(
        f"series, {SERIES_WIDTH} values per row, {rows_per_batch} rows per batch",
        "rows/s",
        harness.spread(values),
        asked=rounds * batches * rows_per_batch,
        found=found,
        values=tuple(values),
    )


def _columns(sequence: int, rows: int) -> dict[str, codec.Buffer | list[str]]:
    steps = codec.int64_buffer(range(sequence * rows, (sequence + 1) * rows))
    return {
        "complete_step": steps,
        "step": steps,
        "mode": ["train"] * rows,
        "mode_step": steps,
        "time_ns": steps,
        "values": bytes(8 * SERIES_WIDTH * rows),
    }


def _fill(memory: mmap.mmap, pattern: bytes) -> None:
    for offset in range(0, len(memory), len(pattern)):
        part = pattern[: len(memory) - offset]
        memory[offset : offset + len(part)] = part


def _write_new(path: Path, payload: bytes, *, is_synced: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        written = 0
        while written < len(payload):
            written += os.write(descriptor, memoryview(payload)[written:])
        if is_synced:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keys(run: Path) -> int:
    from safetensors import safe_open

    found = 0
    for file in run.glob("tensors/*/*.safetensors"):
        with safe_open(file, framework="np") as opened:
            found += len(list(opened.keys()))
    return found


def _rows(run: Path) -> int:
    import pyarrow as pa

    found = 0
    for file in run.glob("series/*/*.arrow*"):
        with pa.input_stream(file) as stream, pa.ipc.open_stream(stream) as reader:
            found += sum(batch.num_rows for batch in reader)
    return found


def main() -> int:
    parser = harness.arguments(__doc__, rounds=40, quick_rounds=5)
    parser.add_argument("--scratch", type=Path, default=harness.RESULTS, help="a folder on the disk to measure")
    options = parser.parse_args()
    started, rounds = harness.machine(), harness.rounds_of(options)
    options.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=options.scratch) as folder:
        scratch = Path(folder)
        rows = [
            tensor_row(
                label,
                size,
                captures=captures,
                in_a_row=in_a_row,
                rounds=rounds if in_a_row == 1 else max(3, rounds // 4),
                scratch=scratch,
                is_synced=is_synced,
            )
            for is_synced in (False, True)
            for label, size, captures, in_a_row in SIZES
        ]
        rows += [series_row(count, rounds=max(3, rounds // 8), scratch=scratch) for count in (1, 25)]
    return harness.report("write", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
