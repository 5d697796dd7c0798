"""Compiled capture programs, kept on disk: a run compiles no program that a run before it has compiled.

Only programs of ours on a single device are kept; the settings and the cache of JAX itself are left alone, and where
the script has set up the latter it serves our programs too. A file holds machine code and a pickle: the folder is used
only if it, and the file, belong to this account, and nobody else may write to them.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import stat
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any, Final

import jax
from jax.experimental import serialize_executable

from leadline.store.cache import cache_folder

_FOLDER: Final = "jax-programs"
_MAX_BYTES: Final = 256 * 2**20
"""All files; those that were not used for longest are removed."""
_UNUSABLE: Final = (
    *(RuntimeError, ValueError, TypeError, AttributeError, LookupError, ImportError, EOFError),
    pickle.PickleError,
)
"""What JAX raises where it cannot make or load an executable: errors of its runtime and of pickle."""
_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class CachedProgram:
    """A compiled function, for arguments of the types and places of its first call; for others it is called itself.

    Args:
        jitted: What ``jax.jit`` has returned.
        arguments: The arguments of its first call; their arrays are on one device.

    Attributes:
        saved_ns: What its compilation took in the run that has compiled it; 0: it was compiled now.
    """

    def __init__(self, jitted: Any, arguments: Sequence[Any]) -> None:
        self._jitted = jitted
        self._compiled: Callable[..., Any] | None
        self._compiled, self.saved_ns = _compiled(jitted.lower(*arguments), device_of(arguments))

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is not None:
            try:
                return self._compiled(*arguments)
            except (TypeError, ValueError):  # compiled for others; if it is something else, it is raised again below
                self._compiled = None
        return self._jitted(*arguments)


def device_of(values: Any) -> Any:
    """Return the one device that arrays are on, by default the first one; None: they are on several."""
    leaves = [leaf for leaf in jax.tree_util.tree_leaves(values) if isinstance(leaf, jax.Array)]
    devices = {device for leaf in leaves for device in leaf.sharding.device_set}
    if len(devices) > 1:
        return None
    return next(iter(devices), None) or jax.devices()[0]


def is_usable() -> bool:
    """Return whether programs are kept here: not if JAX keeps them itself, or if there are several processes."""
    return jax.process_count() == 1 and not jax.config.jax_compilation_cache_dir and _folder() is not None


def _compiled(lowered: Any, device: Any) -> tuple[Callable[..., Any], int]:
    """Return a lowered program, compiled, and the nanoseconds that it did not take because the cache had it."""
    folder, text = _folder(), str(lowered.compiler_ir("stablehlo"))
    if folder is None or "callback" in text:  # what would be called back is in this process only
        return lowered.compile(), 0
    path = os.path.join(folder, _key(text, device))
    kept = _read(path)
    if kept is not None:
        with suppress(*_UNUSABLE):  # damaged, or of another version of what the key does not tell: it is compiled
            loaded = serialize_executable.deserialize_and_load(
                kept[8:], lowered.in_tree, lowered.out_tree, backend=device.client, execution_devices=[device]
            )
            return loaded, int.from_bytes(kept[:8], "little")
    began = time.perf_counter_ns()
    compiled = lowered.compile()
    took_ns = time.perf_counter_ns() - began
    try:
        made, _, _ = serialize_executable.serialize(compiled)
    except _UNUSABLE:  # a backend that cannot: nothing is kept
        return compiled, 0
    _write(folder, path, took_ns.to_bytes(8, "little") + made)
    return compiled, 0


def _key(text: str, device: Any) -> str:
    """Return the name of a program: a digest of all that its machine code depends on."""
    parts = (
        *(jax.__version__, version("jaxlib"), device.client.platform_version, device.device_kind),
        *(f"{device.id} of {jax.device_count()}", os.environ.get("XLA_FLAGS", ""), platform.machine()),
        *(_processor() if device.platform == "cpu" else "", text),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _processor() -> str:
    """Return the name and the instruction sets of the processor."""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        lines = file.read().partition("\n\n")[0].splitlines()
    return "\n".join(line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part")))


def _folder() -> str | None:
    """Return the folder of the cache; None: it cannot be made, or somebody else may write to it."""
    folder = cache_folder(_FOLDER)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return folder if _is_ours(os.lstat(folder), stat.S_ISDIR) else None
    except OSError:
        return None


def _is_ours(status: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _read(path: str) -> bytes | None:
    """Return what a file holds; None: there is none, or it is not to be trusted."""
    try:
        with open(os.open(path, _FLAGS), "rb") as file:
            if not _is_ours(os.fstat(file.fileno()), stat.S_ISREG):
                return None
            os.utime(file.fileno())
            return file.read()
    except OSError:
        return None


def _write(folder: str, path: str, made: bytes) -> None:
    """Write a file, and remove those that were not used for longest; nothing is kept where that fails."""
    with suppress(OSError):
        descriptor, temporary = tempfile.mkstemp(dir=folder)
        with open(descriptor, "wb") as file:
            file.write(made)
        os.replace(temporary, path)
        files = sorted((entry.stat().st_mtime_ns, entry.stat().st_size, entry.path) for entry in os.scandir(folder))
        total = sum(size for _, size, _ in files)
        for _, size, old in files:
            if total > _MAX_BYTES:
                os.unlink(old)
                total -= size
