"""Raw tensors on disk: one safetensors file a capture, written past the page cache from aligned buffers."""

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
from leadline.store.documents import PRIVATE_FILE, make_leaf

ALIGNMENT: Final = 4096
"""What unbuffered writes ask of addresses, offsets and lengths."""
_CHUNK_BYTES: Final = 64 << 20
_MOST_PARTS: Final = 512
_SMALL_BYTES: Final = 4 << 20
"""Captures up to this size share a segment with those that wait beside them."""
_DIRECT_BYTES: Final = 16 << 20
"""Captures above this size go past the page cache: a copy on the training's cores, and its data's place, are spared."""
_WIDEST_STEP: Final = 10**15


@dataclass(frozen=True, slots=True)
class TensorSlot:
    """Where a tensor stands within a capture."""

    name: str
    dtype: str
    """As safetensors spells it: ``F32``, ``BF16`` …"""
    shape: tuple[int, ...]
    offset: int
    """From the start of the data, in bytes."""
    bytes: int


class CaptureForm:
    """The form of a raw capture that recurs: which tensors, where in the buffer, room for the header in front."""

    def __init__(self, tensors: Sequence[tuple[str, str, tuple[int, ...], int]], mode: str) -> None:
        """
        Args:
            tensors: Name, safetensors type, shape and number of bytes of each; the widest types should come
                first, so that every tensor is aligned to its own elements.
            mode: The mode in which they are captured.
        """
        slots, offset = [], 0
        for name, dtype, shape, size in tensors:
            slots.append(TensorSlot(name, dtype, shape, offset, size))
            offset += size
        self.slots = tuple(slots)
        self.mode = mode
        self.data_bytes = offset
        self._tails = [_tail(slot) for slot in self.slots]
        widest = len(self._header(_WIDEST_STEP, {"time_ns": str(_WIDEST_STEP * 10**5)}))
        self.header_bytes = _round_up(8 + widest)
        self.buffer_bytes = self.header_bytes + _round_up(self.data_bytes)

    def header(self, step: int, metadata: Mapping[str, str]) -> bytes:
        """The first ``header_bytes`` of the file: length, then the JSON padded with spaces."""
        spoken = self._header(step, metadata)
        room = self.header_bytes - 8
        if len(spoken) > room:
            raise ValueError(f"the metadata of a capture take {len(spoken)} bytes, {room} are kept for them")
        return struct.pack("<Q", room) + spoken.ljust(room)

    def entries(self, step: int, start: int = 0) -> str:
        """The tensors as a safetensors header names them, as the inside of a JSON object."""
        head = json.dumps(layout.tensor_key(self.mode, step, ""))[:-1]
        return ",".join(
            [
                f"{head}{tail}[{start + slot.offset},{start + slot.offset + slot.bytes}]}}"
                for slot, tail in zip(self.slots, self._tails, strict=True)
            ]
        )

    def _header(self, step: int, metadata: Mapping[str, str]) -> bytes:
        return _join_header([self.entries(step)], metadata)


def _tail(slot: TensorSlot) -> str:
    """What follows the step in a slot's entry, up to its offsets."""
    name = json.dumps(slot.name)[1:]
    return f'{name}:{{"dtype":"{slot.dtype}","shape":{json.dumps(slot.shape)},"data_offsets":'


def _join_header(entries: Sequence[str], metadata: Mapping[str, str]) -> bytes:
    parts = [json.dumps({"format": "pt", **metadata}), *(each for each in entries if each)]
    return f'{{"__metadata__":{",".join(parts)}}}'.encode()


class HostBuffer:
    """Page-aligned memory for one capture; its views belong to whoever fills it and live as long as it does."""

    def __init__(self, form: CaptureForm) -> None:
        self.form = form
        self.memory = mmap.mmap(-1, form.buffer_bytes)
        self.views: Any = None
        """The framework's views of the slots, made once by the one who fills the buffer."""


class BufferPool:
    """Buffers that are used again and again, bounded in all; safe for several threads."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._taken = 0
        self._free: dict[int, list[HostBuffer]] = {}
        self._lock = threading.Lock()

    def acquire(self, form: CaptureForm) -> HostBuffer | None:
        """A buffer of that form, or None when the memory is used up."""
        with self._lock:
            free = self._free.get(id(form))
            if free:
                return free.pop()
            if self._taken + form.buffer_bytes > self._limit:
                self._drop_idle()
            if self._taken + form.buffer_bytes > self._limit:
                return None
            self._taken += form.buffer_bytes
        return HostBuffer(form)

    def release(self, buffer: HostBuffer) -> None:
        """Give a buffer back."""
        with self._lock:
            self._free.setdefault(id(buffer.form), []).append(buffer)

    def _drop_idle(self) -> None:
        for free in self._free.values():
            for buffer in free:
                self._taken -= buffer.form.buffer_bytes
            free.clear()


@dataclass(slots=True)
class TensorCapture:
    """A filled buffer on its way to disk."""

    buffer: HostBuffer
    step: int
    time_ns: int

    @property
    def bytes(self) -> int:
        return self.buffer.form.header_bytes + self.buffer.form.data_bytes


class TensorFolder:
    """The safetensors segments of one worker."""

    def __init__(self, run: str, worker: str) -> None:
        self._run, self._worker = run, worker
        self._ordinal = 0
        self._is_direct = hasattr(os, "O_DIRECT")
        make_leaf(os.path.join(run, layout.TENSORS, worker))

    def write(self, captures: Sequence[TensorCapture]) -> int:
        """Write captures, small ones together in one segment; each appears under its name when it is whole.

        Returns:
            The bytes written.
        Raises:
            OSError: The segment in progress is not there; those before it are.
        """
        small = [each for each in captures if each.buffer.form.data_bytes <= _SMALL_BYTES]
        large = [each for each in captures if each.buffer.form.data_bytes > _SMALL_BYTES]
        groups = [[each] for each in large] + _without_repetition(small)
        return sum(self._write_one(*group) if len(group) == 1 else self._write_together(group) for group in groups)

    def _write_one(self, capture: TensorCapture) -> int:
        form, memory = capture.buffer.form, capture.buffer.memory
        memory[: form.header_bytes] = form.header(capture.step, {"time_ns": str(capture.time_ns)})
        with memoryview(memory) as whole:
            view = whole if form.data_bytes > _DIRECT_BYTES else whole[: form.header_bytes + form.data_bytes]
            is_large = form.data_bytes > _DIRECT_BYTES
            return self._write_segment([view], form.header_bytes + form.data_bytes, is_direct=is_large)

    def _write_together(self, captures: Sequence[TensorCapture]) -> int:
        entries, start = [], 0
        for each in captures:
            entries.append(each.buffer.form.entries(each.step, start))
            start += each.buffer.form.data_bytes
        spoken = _join_header(entries, {})
        header = struct.pack("<Q", -(-len(spoken) // 8) * 8) + spoken.ljust(-(-len(spoken) // 8) * 8)
        views = [
            memoryview(each.buffer.memory)[form.header_bytes : form.header_bytes + form.data_bytes]
            for each in captures
            for form in (each.buffer.form,)
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
            self._is_direct = False  # this file system takes no unbuffered writes
        _write_parts(path, flags, parts, size)


def _without_repetition(captures: Sequence[TensorCapture]) -> list[list[TensorCapture]]:
    """Captures in groups in which no tensor of a step stands twice: such a segment could not be read."""
    groups: list[list[TensorCapture]] = []
    held: list[set[tuple[str, int, str]]] = []
    for each in captures:
        keys = {(each.buffer.form.mode, each.step, slot.name) for slot in each.buffer.form.slots}
        at = next((at for at, others in enumerate(held) if not others & keys), len(groups))
        if at == len(groups):
            groups.append([])
            held.append(set())
        groups[at].append(each)
        held[at] |= keys
    return groups


def _write_parts(path: str, flags: int, parts: list[memoryview], size: int) -> None:
    descriptor = os.open(path, flags, PRIVATE_FILE)
    try:
        written = os.writev(descriptor, parts[:_MOST_PARTS]) if len(parts) > 1 else 0
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
