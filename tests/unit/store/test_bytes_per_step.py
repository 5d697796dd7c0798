"""A long run of a fast training takes few bytes for each step, and is read back exactly, as earlier runs are."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from leadline.reader.stream import StreamTail
from leadline.records.metric import Channel
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.store import codec, layout
from leadline.store.codec import SYSTEM, float64_buffer, int64_buffer, system_metadata
from leadline.store.segments import Segment, SegmentFolder

WORKER = "rank0-1"
STEPS, FLUSHES = 25, 400
"""The steps of one flush, and the flushes: 100 steps a second for 100 seconds."""
FIRST_NS = 1_700_000_000_123_456_789


def opened(run: Path, part: str, schema: codec.TableSchema, metadata: dict[str, str], *, now: bool = True) -> Segment:
    (run / part).mkdir()
    return SegmentFolder(str(run), part, WORKER, compresses=now).open(schema, metadata)


def losses() -> np.ndarray:
    """Return losses as a training has them: float32, none like the one before; some are no numbers."""
    chance = np.random.default_rng(0)
    values = chance.lognormal(size=STEPS * FLUSHES).astype(np.float32).astype(np.float64)
    values[[7, 1234]] = np.nan, -np.inf
    return values


def times() -> np.ndarray:
    chance = np.random.default_rng(1)
    return FIRST_NS + np.cumsum(chance.normal(1e7, 2e5, STEPS * FLUSHES).astype(np.int64))


def write_losses(run: Path, *, compresses: bool) -> Path:
    """Write the losses as the writer does: 25 steps in a batch, four batches a second."""
    names = SeriesLayout((TensorInfo("loss", ("losses",)),), ((0, "value"),))
    segment = opened(run, layout.SERIES, codec.series_schema(1), codec.series_metadata(names), now=compresses)
    values, at_ns = losses(), times()
    for flush in range(FLUSHES):
        steps = range(flush * STEPS, (flush + 1) * STEPS)
        columns = {
            "complete_step": int64_buffer([steps[-1]] * STEPS),
            "step": int64_buffer(steps),
            "mode": ["train"] * STEPS,
            "mode_step": int64_buffer(steps),
            "time_ns": int64_buffer(at_ns[steps].tolist()),
            "values": float64_buffer(values[steps].tolist()),
        }
        segment.append(flush, STEPS, columns)
    segment.close()
    return Path(segment.path)


@pytest.mark.parametrize(("compresses", "bytes_per_step"), [(True, 18), (False, 90)], ids=["now", "earlier"])
def test_losses_take_few_bytes_and_are_read_exactly(tmp_path: Path, compresses: bool, bytes_per_step: int) -> None:
    path = write_losses(tmp_path, compresses=compresses)
    assert path.stat().st_size < bytes_per_step * STEPS * FLUSHES
    (ranges,) = StreamTail(str(tmp_path), layout.SERIES, WORKER).read_new(is_finished=True)
    assert ranges.numbers("values")[:, 0].tobytes() == losses().tobytes()
    assert np.array_equal(ranges.numbers("time_ns"), times())
    assert np.array_equal(ranges.numbers("step"), np.arange(STEPS * FLUSHES))
    assert ranges.sequences.tolist() == list(range(FLUSHES))


def test_a_torn_end_loses_the_last_flush_only(tmp_path: Path) -> None:
    path = write_losses(tmp_path, compresses=True)
    path.write_bytes(path.read_bytes()[:-30])
    stream = StreamTail(str(tmp_path), layout.SERIES, WORKER)
    (ranges,) = stream.read_new(is_finished=True)
    assert ranges.numbers("values")[:, 0].tobytes() == losses()[:-STEPS].tobytes()
    (line,) = stream.damage
    assert "ends with an incomplete batch" in line


def test_one_row_in_a_flush_takes_few_bytes(tmp_path: Path) -> None:
    names = SeriesLayout((TensorInfo("norm", ()), TensorInfo("rate", ())), ((0, "value"), (1, "value")))
    segment = opened(tmp_path, layout.SERIES, codec.series_schema(2), codec.series_metadata(names))
    chance = np.random.default_rng(2)
    for flush in range(1000):
        columns = {name: int64_buffer([50 * flush]) for name in ("complete_step", "step", "mode_step")}
        time_ns = int64_buffer([FIRST_NS + 500_000_000 * flush + int(chance.integers(10**6))])
        values = struct.pack("<2d", np.float32(chance.normal()), 0.01)
        segment.append(flush, 1, {**columns, "mode": ["train"], "time_ns": time_ns, "values": values})
    assert segment.bytes < 80 * 1000


def test_samples_of_a_machine_take_few_bytes(tmp_path: Path) -> None:
    channels = [Channel("cpu", f"core{index}", "percent") for index in range(8)]
    segment = opened(tmp_path, layout.SYSTEM, SYSTEM, system_metadata(channels))
    chance = np.random.default_rng(3)
    for second in range(500):
        columns = {
            "time_ns": int64_buffer([FIRST_NS + second * 10**9 + int(chance.integers(10**6))] * 8),
            "channel": int64_buffer(range(8)),
            "value": float64_buffer(np.round(chance.uniform(0, 100, 8), 1).tolist()),
        }
        segment.append(second, 8, columns)
    assert segment.bytes < 24 * 500 * 8
