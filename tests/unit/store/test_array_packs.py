"""Array statistics are appended to one file, and read back while it grows, is torn or is damaged."""

from __future__ import annotations

import errno
import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from leadline.reader.tensors import TensorIndex
from leadline.store import append_only_file, tensors
from leadline.store.tensors import CaptureForm, HostBuffer, TensorCapture, TensorFolder

WORKER = "rank0-1"
ARRAYS = {
    "fc@unit_mean": np.array([0.5, 0.0, -2.0], "<f4"),
    "labels@class_counts": np.array([7, 256, *[0] * 998], "<i4"),
    "none@unit_std": np.zeros(5, "<f8"),
}
TYPES = {"<f4": "F32", "<i4": "I32", "<f8": "F64"}


def capture(step: int, arrays: dict[str, np.ndarray], mode: str = "train") -> TensorCapture:
    form = CaptureForm([(name, TYPES[a.dtype.str], a.shape, a.nbytes) for name, a in arrays.items()], mode)
    buffer = HostBuffer(form)
    for slot, array in zip(form.slots, arrays.values(), strict=True):
        start = form.header_bytes + slot.offset
        buffer.memory[start : start + slot.bytes] = array.tobytes()
    return TensorCapture(buffer, step, 1)


def read(index: TensorIndex) -> dict[tuple[str, int, str], list[float]]:
    return {(found.mode, found.step, found.name): found.load().tolist() for found in index.read_new()}


def expected(step: int, mode: str = "train") -> dict[tuple[str, int, str], list[float]]:
    return {(mode, step, name): array.tolist() for name, array in ARRAYS.items()}


def files(run: Path) -> list[str]:
    return sorted(os.listdir(run / "tensors" / WORKER))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "tensors").mkdir()
    return tmp_path


def test_arrays_of_many_steps_are_one_small_file(run: Path) -> None:
    folder, index = TensorFolder(str(run), WORKER), TensorIndex(str(run), WORKER)
    for step in range(0, 40, 2):
        folder.write([capture(step, ARRAYS), capture(step + 1, ARRAYS), capture(step, ARRAYS, "eval")])
        assert read(index) == expected(step) | expected(step + 1) | expected(step, "eval")
    assert read(index) == {}
    folder.close()
    assert files(run) == ["000001.arrays"]
    whole = sum(array.nbytes for array in ARRAYS.values()) * 60
    assert os.path.getsize(run / "tensors" / WORKER / "000001.arrays") < whole / 5
    assert index.damage == []


def test_raw_tensors_are_segments_of_their_own_beside_it(run: Path) -> None:
    folder, raw = TensorFolder(str(run), WORKER), {"fc.weight": np.ones(3, "<f4")}
    folder.write([capture(0, ARRAYS), capture(0, raw)])
    folder.write([capture(1, raw), capture(1, ARRAYS)])
    assert files(run) == ["000001.safetensors", "000002.arrays", "000003.safetensors"]
    found = read(TensorIndex(str(run), WORKER))
    assert found == expected(0) | expected(1) | {("train", step, "fc.weight"): [1.0] * 3 for step in (0, 1)}


def test_a_torn_block_is_not_yet_written(run: Path) -> None:
    TensorFolder(str(run), WORKER).write([capture(0, ARRAYS)])
    path = run / "tensors" / WORKER / "000001.arrays"
    block = path.read_bytes()
    for length in range(len(block)):
        path.write_bytes(block + block[:length])
        index = TensorIndex(str(run), WORKER)
        assert len(index.read_new()) == 3
        assert index.read_new() == []
        path.write_bytes(block + block)
        assert len(index.read_new()) == 3, "the rest of it"
        assert index.damage == []


def test_what_follows_a_damaged_block_is_not_read(run: Path) -> None:
    folder = TensorFolder(str(run), WORKER)
    folder.write([capture(0, ARRAYS)])
    path = run / "tensors" / WORKER / "000001.arrays"
    end = path.stat().st_size
    folder.write([capture(1, ARRAYS)])
    content = bytearray(path.read_bytes())
    content[end + 7] = 0x7F
    path.write_bytes(content)
    index = TensorIndex(str(run), WORKER)
    assert read(index) == expected(0)
    said = f"tensors/{WORKER}/000001.arrays: its header cannot be read (it has a wrong length) (at byte {end})"
    assert index.damage == [said]
    assert index.read_new() == []
    assert len(index.damage) == 1


def test_after_a_failed_write_the_next_file_is_begun(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, written = TensorFolder(str(run), WORKER), os.write
    folder.write([capture(0, ARRAYS)])

    def fill(descriptor: int, data: memoryview) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(append_only_file.os, "write", fill)
    with pytest.raises(OSError, match="No space"):
        folder.write([capture(1, ARRAYS)])
    monkeypatch.undo()
    folder.write([capture(2, ARRAYS)])
    assert files(run) == ["000001.arrays", "000002.arrays"]
    index = TensorIndex(str(run), WORKER)
    assert read(index) == expected(0) | expected(2)
    assert index.damage == []


def test_a_full_file_is_followed_by_another(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "_PACK_BYTES", 1)
    folder = TensorFolder(str(run), WORKER)
    for step in range(3):
        folder.write([capture(step, ARRAYS)])
    assert files(run) == [f"00000{number}.arrays" for number in (1, 2, 3)]
    assert read(TensorIndex(str(run), WORKER)) == expected(0) | expected(1) | expected(2)
    assert TensorFolder(str(run), WORKER)._ordinal == 3


def test_an_array_that_would_fill_the_memory_is_damage(run: Path) -> None:
    header = json.dumps({"train/0/a@unit_mean": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 0]}}).encode()
    folder = run / "tensors" / WORKER
    folder.mkdir()
    (folder / "000001.arrays").write_bytes(struct.pack("<Q", len(header)) + header)
    index = TensorIndex(str(run), WORKER)
    assert index.read_new() == []
    (line,) = index.damage
    assert "it contains an array that is larger than any statistic" in line
