"""Large segments of raw tensors in a mirror: their headers are fetched at first, and each tensor when it is read.

Such a segment is a file of the size of the object, with holes, and beside it the list of the ranges that are here.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Final

from leadline.remote.fetching import FileFetcher
from leadline.remote.object_store import ObjectMissingError, ObjectStore
from leadline.remote.objects import StoredFile
from leadline.store import layout
from leadline.store.documents import append_line, make_folder, read_lines, replace_file

_MIN_BYTES: Final = 1 << 20
"""A smaller segment is fetched as a whole: another request would cost more than its bytes."""
_FIRST_BYTES: Final = 1 << 16
_PREFIX_BYTES: Final = 8


def is_ranged(name: str, stored: StoredFile) -> bool:
    """Return whether a file is a segment of which tensors are fetched one by one."""
    is_raw = name.startswith(f"{layout.TENSORS}/") and name.endswith(".safetensors")
    return is_raw and stored.whole is not None and stored.whole_bytes >= _MIN_BYTES


def fetch_header(store: ObjectStore, files: FileFetcher, name: str, stored: StoredFile) -> None:
    """Make the file of a segment, with its header.

    Raises:
        StoreError: The store cannot be read.
    """
    path, size = files.path(name), stored.whole_bytes
    if os.path.exists(path) and os.path.getsize(path) == size:
        return
    try:
        content = store.get(name, 0, min(size, _FIRST_BYTES))
        end = min(size, _PREFIX_BYTES + struct.unpack("<Q", content[:_PREFIX_BYTES])[0])
        if end > len(content):
            content += store.get(name, len(content), end)
    except ObjectMissingError:  # it was deleted since it was listed
        return
    make_folder(os.path.dirname(path))
    with open(path + layout.HOLES, "wb") as ranges:  # a segment without it is whole
        ranges.write(json.dumps([0, len(content)]).encode() + b"\n")
    with replace_file(path) as file:
        file.write(content)
        file.truncate(size)


def is_here(path: str, start: int, end: int) -> bool:
    """Return whether a range of a segment was fetched."""
    here = [known for known in read_lines(path + layout.HOLES) if isinstance(known, list) and len(known) == 2]
    return start == end or any(first <= start and end <= last for first, last in here)


def fetch_range(store: ObjectStore, path: str, name: str, start: int, end: int) -> None:
    """Write a range of a segment into its file.

    Raises:
        StoreError: The store cannot be read.
        OSError: The file cannot be written.
    """
    content = store.get(name, start, end)
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(content)
    append_line(path + layout.HOLES, [start, end])
