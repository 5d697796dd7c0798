"""What a forked process does to be as a started one, and to run its program."""

from __future__ import annotations

import atexit
import ctypes
import io
import logging
import mmap
import os
import runpy
import signal
import site
import struct
import sys
import time
import weakref
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType
from typing import Any

from fork_server import client, imported, wire

_PR_SET_NAME, _PR_SET_MM, _PR_SET_MM_MAP = 15, 35, 14
_PATIENCE_SECONDS = 10.0
_ABOVE = 512
"""Descriptors are moved above this one before they get their numbers."""
_HERE = os.path.dirname(os.path.abspath(__file__))


def await_parent(parent: int) -> None:
    """Wait until the process that asked has adopted this one."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while os.getppid() != parent:
        if time.monotonic() > end:
            os._exit(1)
        time.sleep(0.0002)


def enter_group(request: dict[str, Any]) -> None:
    """Enter a session or a process group of its own, if it was asked for."""
    if request["has_session"]:
        os.setsid()
    if request["group"] >= 0:
        os.setpgid(0, request["group"])


def run(request: dict[str, Any], descriptors: list[int], aside: imported.SetAside, added: dict[str, str]) -> None:
    """Be as a started process, and run the program."""
    server = request.get("server")
    server = _take_descriptors(request["numbers"], descriptors, server)
    _inherit(request)
    _set_environment(request, added)
    _tell_the_system(request["command"], request["environment"])
    _open_streams(is_unbuffered="-u" in request["flags"] or bool(request["environment"].get("PYTHONUNBUFFERED")))
    if (random := aside.module("numpy.random.mtrand")) is not None:
        random.seed()
    sys.meta_path.insert(0, aside)
    _set_path(request["environment"].get("PYTHONPATH", ""))
    if server is not None:
        client.install(server)
    _end_quickly(aside, is_own=wire.is_own(request.get("module", "")))
    signal.pthread_sigmask(signal.SIG_SETMASK, request["mask"])
    try:
        _run_program(request, aside)
    except BaseException:
        _hide_frames()
        raise


def _take_descriptors(numbers: list[int], descriptors: list[int], server: Any) -> Any:
    """Give the received descriptors their numbers; the socket of the server is moved out of their way."""
    import fcntl
    import socket

    high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for each in descriptors]
    for each in descriptors:
        os.close(each)
    if server is not None:
        number = fcntl.fcntl(server.fileno(), fcntl.F_DUPFD_CLOEXEC, _ABOVE)
        server.close()
        server = socket.socket(fileno=number)
    for number, each in zip(numbers, high, strict=True):
        os.dup2(each, number)
        os.close(each)
    return server


def _inherit(request: dict[str, Any]) -> None:
    import resource

    os.chdir(request["folder"])
    os.umask(request["umask"])
    for number in signal.valid_signals():
        if number in request["ignored"]:
            signal.signal(number, signal.SIG_IGN)
        elif number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)
    for name, limit in request["limits"].items():
        kind = getattr(resource, name)
        if resource.getrlimit(kind) != tuple(limit):
            resource.setrlimit(kind, tuple(limit))
    if os.getpriority(os.PRIO_PROCESS, 0) != request["nice"]:
        os.setpriority(os.PRIO_PROCESS, 0, request["nice"])
    if sorted(os.sched_getaffinity(0)) != request["cpus"]:
        os.sched_setaffinity(0, request["cpus"])


def _set_environment(request: dict[str, Any], added: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(request["environment"])
    if not wire.is_own(request.get("module", "")):
        for name, value in added.items():
            os.environ.setdefault(name, value)
    sys.dont_write_bytecode = bool(request["environment"].get("PYTHONDONTWRITEBYTECODE"))


def _tell_the_system(command: list[str], environment: dict[str, str]) -> None:
    """Set the name, the command line and the environment that ``/proc`` shows."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NAME, os.path.basename(command[0]).encode()[:15], 0, 0, 0)
    sys.orig_argv = list(command)
    words = b"".join(os.fsencode(word) + b"\0" for word in command)
    variables = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    shown = mmap.mmap(-1, len(words) + len(variables), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    shown.write(words + variables)
    start = ctypes.addressof(ctypes.c_char.from_buffer(shown))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(shown))  # it stays
    middle, end = start + len(words), start + len(words) + len(variables)
    fields = _memory_fields()
    libc.sbrk.restype = ctypes.c_void_p
    addresses = [fields[number] for number in (26, 27, 45, 46, 47)] + [libc.sbrk(0), fields[28]]
    layout = struct.pack("12QII", *addresses, start, middle, middle, end, 0, 0, 0xFFFFFFFF)  # struct prctl_mm_map
    if libc.prctl(_PR_SET_MM, ctypes.c_ulong(_PR_SET_MM_MAP), layout, ctypes.c_ulong(len(layout)), ctypes.c_ulong(0)):
        os.write(2, b"fork server: the kernel does not let a process set its command line\n")
        os._exit(1)


def _memory_fields() -> dict[int, int]:
    """Return the numeric fields of ``/proc/self/stat`` by their numbers in proc(5)."""
    with open("/proc/self/stat", "rb") as file:
        values = file.read().rpartition(b")")[2].split()
    return {number: int(value) for number, value in enumerate(values[1:], 4)}


def _open_streams(*, is_unbuffered: bool) -> None:
    """Open the standard streams as the interpreter does at its start."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)  # of the server: what the locale demands
        raw = io.FileIO(number, "rb" if number == 0 else "wb", closefd=False)
        is_terminal = raw.isatty()
        if number == 0:
            stream = io.TextIOWrapper(io.BufferedReader(raw), encoding=before.encoding, errors=before.errors)
        else:
            stream = io.TextIOWrapper(
                raw if is_unbuffered else io.BufferedWriter(raw),  # type: ignore[arg-type]
                encoding=before.encoding,
                errors=before.errors,
                newline="\n",
                line_buffering=is_terminal or number == 2,
                write_through=is_unbuffered,
            )
        raw.name = f"<{name}>"
        stream.mode = "r" if number == 0 else "w"
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _set_path(pythonpath: str) -> None:
    """Insert ``PYTHONPATH``, and run the ``sitecustomize`` that it may have."""
    entries = [os.path.abspath(entry) for entry in pythonpath.split(os.pathsep)] if pythonpath else []
    sys.path[:] = list(dict.fromkeys([*entries, *sys.path]))
    sys.path_importer_cache.clear()
    if entries:
        site.execsitecustomize()


class _Flags:
    """The flags of the interpreter, with one that is decided by the command."""

    def __init__(self, real: Any, is_safe: bool) -> None:
        self._real, self.safe_path = real, is_safe

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _end_quickly(aside: imported.SetAside, *, is_own: bool) -> None:
    """Leave the memory of the imported libraries to the kernel, which their own cleanup would copy page by page.

    What the program registers runs before: ``atexit``, and the C library's ``atexit`` and ``on_exit``.
    """
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    if is_own:  # which may never import the framework
        atexit._clear()
        atexit.register(logging.shutdown)
    atexit.register(aside.leave_to_the_system)
    libc = ctypes.CDLL(None)
    libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)
    libc.__cxa_atexit(ctypes.cast(libc.fflush, ctypes.c_void_p), None, None)


def _run_program(request: dict[str, Any], aside: imported.SetAside) -> None:
    main = ModuleType("__main__")
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    is_safe = "-P" in request["flags"]
    sys.flags = _Flags(sys.flags, is_safe)  # type: ignore[misc, assignment]
    if "module" in request:
        module = request["module"]
        sys.argv = ["-m", *request["arguments"]]
        if not is_safe:
            sys.path.insert(0, os.getcwd())
        aside.forget(module)
        aside.forget(f"{module}.__main__")
        runpy._run_module_as_main(module)  # type: ignore[attr-defined]
        return
    path = request["script"]
    sys.argv = [path, *request["arguments"]]
    if not is_safe:
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    vars(main).update(
        __file__=path, __loader__=SourceFileLoader("__main__", path), __spec__=None, __package__=None, __cached__=None
    )
    exec(code, vars(main))


def _hide_frames() -> None:
    """Let the traceback of what ends the program begin with the program."""
    shown = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
            trace = trace.tb_next
        shown(kind, error.with_traceback(trace), trace)

    sys.excepthook = hook
