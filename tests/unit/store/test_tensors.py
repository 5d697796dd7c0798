"""Safetensors segments: readable by the safetensors library, complete or absent."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from leadline.store.tensors import BufferPool, CaptureForm, HostBuffer, TensorCapture, TensorFolder


def capture(values: dict[str, np.ndarray], step: int) -> TensorCapture:
    form = CaptureForm([(name, "F32", array.shape, array.nbytes) for name, array in values.items()], "train")
    buffer = HostBuffer(form)
    for slot in form.slots:
        start = form.header_bytes + slot.offset
        buffer.memory[start : start + slot.bytes] = values[slot.name].tobytes()
    return TensorCapture(buffer, step, 99)


def tensor_folder(run: Path) -> TensorFolder:
    (run / "tensors").mkdir()
    return TensorFolder(str(run), "w")


def random_array(size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


@pytest.mark.parametrize("size", [1, 1000, 1024, (4 << 20) // 4 + 1, (16 << 20) // 4 + 1, 5_000_001])
def test_a_capture_is_read_back_unchanged(tmp_path: Path, size: int) -> None:
    values = {
        "a": random_array(size),
        "b.weight": random_array(6, 1).reshape(2, 3),
        "none": np.zeros((0, 4), np.float32),
    }
    written = tensor_folder(tmp_path).write([capture(values, 12)])
    (path,) = (tmp_path / "tensors" / "w").iterdir()
    assert path.name == "000001.safetensors"
    assert path.stat().st_size == written
    read = load_file(path)
    assert set(read) == {f"train/12/{name}" for name in values}
    for name, array in values.items():
        np.testing.assert_array_equal(read[f"train/12/{name}"], array)


def test_small_captures_share_a_segment_and_large_ones_do_not(tmp_path: Path) -> None:
    captures = [capture({"a": random_array(10, step)}, step) for step in range(3)] + [
        capture({"a": random_array(2_000_000)}, 3)
    ]
    tensor_folder(tmp_path).write(captures)
    files = sorted((tmp_path / "tensors" / "w").iterdir())
    keys = sorted(tuple(sorted(load_file(path))) for path in files)
    assert keys == [("train/0/a", "train/1/a", "train/2/a"), ("train/3/a",)]


def test_a_tensor_that_two_optimizers_hold_leaves_every_segment_readable(tmp_path: Path) -> None:
    captures = [
        capture({"a": random_array(3, index), f"b{index}": random_array(4, index)}, 7) for index in range(3)
    ] + [capture({"a": random_array(3)}, 8)]
    tensor_folder(tmp_path).write(captures)
    keys = [key for path in (tmp_path / "tensors" / "w").iterdir() for key in load_file(path)]
    assert sorted(keys) == ["train/7/a"] * 3 + ["train/7/b0", "train/7/b1", "train/7/b2", "train/8/a"]


@pytest.mark.parametrize("size", [10, 2_000_000, 5_000_000])
def test_a_full_disk_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    folder = tensor_folder(tmp_path)

    def refuse(descriptor: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("leadline.store.tensors.os.write", refuse)
    monkeypatch.setattr("leadline.store.tensors.os.writev", refuse)
    with pytest.raises(OSError, match="No space left"):
        folder.write([capture({"a": random_array(size)}, 0)])
    assert list((tmp_path / "tensors" / "w").iterdir()) == []
    monkeypatch.undo()
    folder.write([capture({"a": random_array(size)}, 1)])
    assert [path.name for path in (tmp_path / "tensors" / "w").iterdir()] == ["000001.safetensors"]


def test_a_file_system_without_unbuffered_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, open_file = [], os.open

    def refuse(path: str, flags: int, mode: int) -> int:
        opened.append(bool(flags & os.O_DIRECT))
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return open_file(path, flags, mode)

    monkeypatch.setattr("leadline.store.tensors.os.open", refuse)
    folder, values = tensor_folder(tmp_path), {"a": random_array(5_000_000)}
    folder.write([capture(values, 0), capture(values, 1)])
    assert opened == [True, False, False]
    for path in (tmp_path / "tensors" / "w").iterdir():
        np.testing.assert_array_equal(next(iter(load_file(path).values())), values["a"])


def test_the_header_has_space_for_any_step() -> None:
    form = CaptureForm([("a", "F32", (4,), 16)], "train")
    assert len(form.header(0, {})) == len(form.header(10**14, {"time_ns": str(10**19)})) == form.header_bytes


def test_the_pool_is_limited_and_reuses_buffers() -> None:
    form, other = (CaptureForm([(name, "F32", (4096,), 16384)], "train") for name in "ab")
    pool = BufferPool(2 * form.buffer_bytes)
    first, second = pool.acquire(form), pool.acquire(form)
    assert first is not None
    assert second is not None
    assert pool.acquire(form) is None
    pool.release(first)
    assert pool.acquire(form) is first
    pool.release(first)
    assert pool.acquire(other) is not None, "an idle buffer of another form makes room"
