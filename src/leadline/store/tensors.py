"""Raw tensors as safetensors segments, written from aligned buffers; large captures bypass the page cache.

Array statistics, which are small and many, are appended to a file of blocks instead: each block is what a safetensors
file would be, padded to eight bytes. Zeros at the end of an array are left out of its data.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from leadline.store import layout
from leadline.store.append_only_file import AppendOnlyFile
from leadline.store.documents import PRIVATE_FILE, make_subfolder
from leadline.store.segments import last_ordinal

ALIGNMENT: Final = 4096
"""Alignment of addresses, offsets and lengths that unbuffered writes require."""
_CHUNK_BYTES: Final = 64 << 20
ALIGNED_ELEMENT: Final = 8
"""Alignment of blocks and arrays in a file of array statistics: the size of the largest element."""
_PACK_BYTES: Final = 16 << 20
_MAX_PARTS: Final = 512
_SMALL_BYTES: Final = 4 << 20
"""Captures up to this size share a segment with other queued captures."""
_DIRECT_BYTES: Final = 16 << 20
"""Captures above this size bypass the page cache, which saves a copy on the training's cores and keeps the cache."""
_MAX_STEP: Final = 10**15


@dataclass(frozen=True, slots=True)
class TensorSlot:
    """The location of a tensor in a capture."""

    name: str
    dtype: str
    """The safetensors type: ``F32``, ``BF16`` …"""
    shape: tuple[int, ...]
    offset: int
    """Offset from the start of the data, in bytes."""
    bytes: int


class CaptureForm:
    """The layout of a repeated raw capture: the tensors, their offsets in the buffer, and the space for the header."""

    def __init__(self, tensors: Sequence[tuple[str, str, tuple[int, ...], int]], mode: str) -> None:
        """
        Args:
            tensors: Name, safetensors type, shape and number of bytes of each; the widest types should come
                first, so that every tensor is aligned to its elements.
            mode: The mode in which they are captured.
        """
        slots, offset = [], 0
        for name, dtype, shape, size in tensors:
            slots.append(TensorSlot(name, dtype, shape, offset, size))
            offset += size
        self.slots = tuple(slots)
        self.is_arrays = all(layout.parse_vector_name(slot.name) is not None for slot in self.slots)
        """Whether it has array statistics only."""
        self.mode = mode
        self.data_bytes = offset
        self._suffixes = [_entry_suffix(slot) for slot in self.slots]
        max_length = len(self._header(_MAX_STEP, {"time_ns": str(_MAX_STEP * 10**5)}))
        self.header_bytes = _round_up(8 + max_length)
        self.buffer_bytes = self.header_bytes + _round_up(self.data_bytes)

    def header(self, step: int, metadata: Mapping[str, str]) -> bytes:
        """Return the first ``header_bytes`` of the file: the length, then the JSON padded with spaces."""
        text = self._header(step, metadata)
        space = self.header_bytes - 8
        if len(text) > space:
            raise ValueError(f"the metadata of a capture take {len(text)} bytes, but only {space} are reserved")
        return struct.pack("<Q", space) + text.ljust(space)

    def entries(self, step: int, start: int = 0) -> str:
        """Return the tensors' entries of a safetensors header, without the braces of the JSON object."""
        return self.entries_at(step, [(start + slot.offset, start + slot.offset + slot.bytes) for slot in self.slots])

    def entries_at(self, step: int, offsets: Sequence[tuple[int, int]]) -> str:
        """Return the entries of tensors whose data lie between the given offsets."""
        prefix = json.dumps(layout.tensor_key(self.mode, step, ""))[:-1]
        pairs = zip(self._suffixes, offsets, strict=True)
        return ",".join([f"{prefix}{suffix}[{start},{end}]}}" for suffix, (start, end) in pairs])

    def _header(self, step: int, metadata: Mapping[str, str]) -> bytes:
        return _join_header([self.entries(step)], metadata)


def _entry_suffix(slot: TensorSlot) -> str:
    """Return the part of a slot's entry between the step and the offsets."""
    name = json.dumps(slot.name)[1:]
    return f'{name}:{{"dtype":"{slot.dtype}","shape":{json.dumps(slot.shape)},"data_offsets":'


def _join_header(entries: Sequence[str], metadata: Mapping[str, str]) -> bytes:
    parts = [json.dumps({"format": "pt", **metadata}), *(entry for entry in entries if entry)]
    return f'{{"__metadata__":{",".join(parts)}}}'.encode()


class HostBuffer:
    """Page-aligned memory for one capture; the views belong to the framework and live as long as the buffer."""

    def __init__(self, form: CaptureForm) -> None:
        self.form = form
        self.memory = mmap.mmap(-1, form.buffer_bytes)
        self.views: Any = None
        """The framework's views of the slots, created once by the code that fills the buffer."""


class BufferPool:
    """A pool of reusable buffers with a total size limit; thread-safe."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._allocated = 0
        self._free: dict[int, list[HostBuffer]] = {}
        self._lock = threading.Lock()

    def acquire(self, form: CaptureForm) -> HostBuffer | None:
        """Return a buffer of a form; None if the memory limit is reached."""
        with self._lock:
            free = self._free.get(id(form))
            if free:
                return free.pop()
            if self._allocated + form.buffer_bytes > self._limit:
                self._drop_idle()
            if self._allocated + form.buffer_bytes > self._limit:
                return None
            self._allocated += form.buffer_bytes
        return HostBuffer(form)

    def release(self, buffer: HostBuffer) -> None:
        """Return a buffer to the pool."""
        with self._lock:
            self._free.setdefault(id(buffer.form), []).append(buffer)

    def _drop_idle(self) -> None:
        for free in self._free.values():
            for buffer in free:
                self._allocated -= buffer.form.buffer_bytes
            free.clear()


@dataclass(slots=True)
class TensorCapture:
    """A filled buffer that waits to be written."""

    buffer: HostBuffer
    step: int
    time_ns: int

    @property
    def bytes(self) -> int:
        return self.buffer.form.header_bytes + self.buffer.form.data_bytes


class TensorFolder:
    """The safetensors segments of one worker."""

    def __init__(self, run: str, worker: str, first: int = 1) -> None:
        """
        Args:
            first: The number of the first segment, unless there are later ones: those before it may be elsewhere.
        """
        self._run, self._worker = run, worker
        self._ordinal = max(first - 1, last_ordinal(os.path.join(run, layout.TENSORS, worker)))
        self._is_direct = hasattr(os, "O_DIRECT")
        self._pack: ArrayPack | None = None
        make_subfolder(os.path.join(run, layout.TENSORS, worker))

    def write(self, captures: Sequence[TensorCapture]) -> int:
        """Write captures, small ones together in one segment; a segment gets its final name when it is complete.

        Returns:
            The bytes written.
        Raises:
            OSError: The current segment was not written; those before it were.
        """
        arrays = [capture for capture in captures if capture.buffer.form.is_arrays]
        raw = [capture for capture in captures if not capture.buffer.form.is_arrays]
        small = [capture for capture in raw if capture.buffer.form.data_bytes <= _SMALL_BYTES]
        large = [capture for capture in raw if capture.buffer.form.data_bytes > _SMALL_BYTES]
        groups = [[capture] for capture in large] + _unique_groups(small)
        written = sum(self._write_one(*group) if len(group) == 1 else self._write_together(group) for group in groups)
        return written + sum(map(self._append, _unique_groups(arrays)))

    def close(self) -> None:
        """Close what is open."""
        if self._pack is not None:
            self._pack.close()

    def _append(self, captures: Sequence[TensorCapture]) -> int:
        if self._pack is None or not self._pack.is_open or self._pack.bytes >= _PACK_BYTES:
            self.close()
            self._ordinal += 1
            self._pack = ArrayPack(os.path.join(self._run, layout.array_pack(self._worker, self._ordinal)))
        return self._pack.append(captures)

    def _write_one(self, capture: TensorCapture) -> int:
        form, memory = capture.buffer.form, capture.buffer.memory
        memory[: form.header_bytes] = form.header(capture.step, {"time_ns": str(capture.time_ns)})
        with memoryview(memory) as whole:
            view = whole if form.data_bytes > _DIRECT_BYTES else whole[: form.header_bytes + form.data_bytes]
            is_large = form.data_bytes > _DIRECT_BYTES
            return self._write_segment([view], form.header_bytes + form.data_bytes, is_direct=is_large)

    def _write_together(self, captures: Sequence[TensorCapture]) -> int:
        entries, start = [], 0
        for capture in captures:
            entries.append(capture.buffer.form.entries(capture.step, start))
            start += capture.buffer.form.data_bytes
        text = _join_header(entries, {})
        size = -(-len(text) // 8) * 8
        header = struct.pack("<Q", size) + text.ljust(size)
        views = [
            memoryview(capture.buffer.memory)[form.header_bytes : form.header_bytes + form.data_bytes]
            for capture in captures
            for form in (capture.buffer.form,)
        ]
        return self._write_segment([memoryview(header), *views], len(header) + start, is_direct=False)

    def _write_segment(self, parts: list[memoryview], size: int, *, is_direct: bool) -> int:
        self._ordinal += 1
        path = os.path.join(self._run, layout.tensor_segment(self._worker, self._ordinal))
        partial = path + ".part"
        try:
            self._write_file(partial, parts, size, is_direct=is_direct and self._is_direct)
            os.rename(partial, path)
        except OSError:
            self._ordinal -= 1
            if os.path.exists(partial):
                os.unlink(partial)
            raise
        return size

    def _write_file(self, path: str, parts: list[memoryview], size: int, *, is_direct: bool) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        if is_direct:
            try:
                _write_parts(path, flags | os.O_DIRECT, parts, size)
                return
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
            self._is_direct = False  # this file system does not support unbuffered writes
        _write_parts(path, flags, parts, size)


class ArrayPack(AppendOnlyFile):
    """A file of array statistics, which grows by blocks."""

    def append(self, captures: Sequence[TensorCapture]) -> int:
        """Append one block with the arrays of some captures, of which no two have the same name, mode and step.

        Returns:
            The bytes written.
        Raises:
            OSError: They were not written; the file is closed for good.
        """
        return self.write(_block(captures))


def _block(captures: Sequence[TensorCapture]) -> bytes:
    entries, pieces, offset = [], [], 0
    for capture in captures:
        form, offsets = capture.buffer.form, []
        for slot in form.slots:
            start = form.header_bytes + slot.offset
            data = capture.buffer.memory[start : start + slot.bytes].rstrip(b"\0")
            data += bytes(-len(data) % ALIGNED_ELEMENT)
            pieces.append(data)
            offsets.append((offset, offset + len(data)))
            offset += len(data)
        entries.append(form.entries_at(capture.step, offsets))
    text = _join_header(entries, {})
    size = -(-len(text) // ALIGNED_ELEMENT) * ALIGNED_ELEMENT
    return b"".join([struct.pack("<Q", size), text.ljust(size), *pieces])


def write_tensors(
    path: str, tensors: Mapping[str, tuple[str, tuple[int, ...], bytes]], metadata: Mapping[str, str] | None = None
) -> None:
    """Write one segment at once; it gets its final name when it is complete.

    Args:
        tensors: Type, shape and bytes of each tensor, by its key.
        metadata: Further entries of the header.
    Raises:
        OSError: It was not written.
    """
    entries, offset = [], 0
    for key, (dtype, shape, data) in tensors.items():
        end = offset + len(data)
        entry = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        entries.append(f"{json.dumps(key)}:{json.dumps(entry)}")
        offset = end
    text = _join_header(entries, metadata or {})
    size = -(-len(text) // 8) * 8
    header = struct.pack("<Q", size) + text.ljust(size)
    parts = [memoryview(header), *(memoryview(data) for _, _, data in tensors.values())]
    _write_parts(path + ".part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, parts, len(header) + offset)
    os.replace(path + ".part", path)


def _unique_groups(captures: Sequence[TensorCapture]) -> list[list[TensorCapture]]:
    """Group captures so that no group has a tensor of a step twice, since such a segment could not be read."""
    groups: list[list[TensorCapture]] = []
    keys_by_group: list[set[tuple[str, int, str]]] = []
    for capture in captures:
        keys = {(capture.buffer.form.mode, capture.step, slot.name) for slot in capture.buffer.form.slots}
        index = next((at for at, others in enumerate(keys_by_group) if not others & keys), len(groups))
        if index == len(groups):
            groups.append([])
            keys_by_group.append(set())
        groups[index].append(capture)
        keys_by_group[index] |= keys
    return groups


def _write_parts(path: str, flags: int, parts: list[memoryview], size: int) -> None:
    descriptor = os.open(path, flags | os.O_NOFOLLOW, PRIVATE_FILE)
    try:
        written = os.writev(descriptor, parts[:_MAX_PARTS]) if len(parts) > 1 else 0
        for part in parts:
            offset = min(written, len(part))
            written -= offset
            while offset < len(part):
                offset += os.write(descriptor, part[offset : offset + _CHUNK_BYTES])
        if sum(map(len, parts)) != size:
            os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
