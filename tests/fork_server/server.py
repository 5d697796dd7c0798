"""The process that imports, waits and forks: ``server.py FRAMEWORKS DESCRIPTOR``."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import pkgutil
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[0] = _TESTS
from fork_server import child, imported, wire  # noqa: E402

del sys.path[0]

OWN = (
    "actions",
    "agent",
    "analysis",
    "charts",
    "cli",
    "compaction",
    "config",
    "control",
    "dashboard",
    "exports",
    "judge",
    "monitor",
    "process",
    "reader",
    "records",
    "remote",
    "reports",
    "rules",
    "serve",
    "statistics",
    "store",
    "training",
    "trials",
)
"""Packages of Leadline that the server imports with all their modules."""
LATE = (
    "torch.utils.data",
    "torch.distributed.run",
    "nanoarrow.ipc",
    "numpy.ma",
    "duckdb",
    "obstore.store",
    "tsdownsample",
    "uvicorn.protocols.http.h11_impl",
)
"""Imported after the others: what they import in functions."""
COMPILER = "torch._dynamo"
"""Imported last where the framework is PyTorch: by what compiles, by each DistributedDataParallel, by its trainers."""
ADAPTERS = {
    "torch": ("torch",),
    "tensorflow": ("tensorflow", "keras"),
    "keras": (),
    "jax": ("jax",),
    "mxnet": ("mxnet",),
    "xgboost": ("xgboost", "boosting"),
    "lightgbm": ("lightgbm",),
}
"""The adapter packages of each framework."""
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


def main() -> None:
    """Import, then answer; returns in each forked process, which runs its program."""
    frameworks, descriptor = sys.argv[1].split(","), int(sys.argv[2])
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, 1024)  # a started process would not have them
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    before, variables = set(sys.modules), dict(os.environ)
    for name in frameworks:
        importlib.import_module(name)
    import_own(frameworks)
    added = {name: value for name, value in os.environ.items() if variables.get(name) != value}
    late = import_late((*LATE, COMPILER) if "torch" in frameworks else LATE)
    if len(os.listdir("/proc/self/task")) > 1:
        wire.send(channel, {"refused": f"importing {', '.join(frameworks)} starts threads"})
        return
    aside = imported.SetAside(before, late)
    gc.collect()
    gc.freeze()
    wire.send(channel, {"ready": os.getpid()})
    request, descriptors = serve(channel)
    child.run(request, descriptors, aside, added)


def import_own(frameworks: list[str]) -> None:
    """Import what Leadline's processes need, as far as what it needs is installed."""
    import leadline.frameworks

    adapters = {adapter for framework in frameworks for adapter in ADAPTERS.get(framework, ())}
    packages = [f"leadline.{name}" for name in OWN]
    packages += [f"leadline.frameworks.{name}" for name in sorted(adapters | {"generic", "loggers"})]
    modules = [
        f"leadline.frameworks.{each.name}"
        for each in pkgutil.iter_modules(leadline.frameworks.__path__)
        if not each.ispkg
    ]
    for package in packages:
        found = importlib.import_module(package)
        modules += [each.name for each in pkgutil.walk_packages(found.__path__, f"{package}.", onerror=lambda _: None)]
    for name in modules:
        if not name.endswith("__main__") and "demo_script" not in name:
            with suppress(ImportError):  # an optional library is not installed
                importlib.import_module(name)


def import_late(names: Sequence[str]) -> dict[str, str]:
    """Import the rest; return in which import each module came."""
    came: dict[str, str] = {}
    for name in names:
        before = set(sys.modules)
        with suppress(ImportError):
            importlib.import_module(name)
        came |= dict.fromkeys(sys.modules.keys() - before, name)
    return came


def serve(channel: socket.socket) -> tuple[dict, list[int]]:
    """Fork for each request; returns only in a forked process, with its request and its descriptors."""
    while True:
        hide()
        request, descriptors = wire.receive(channel)
        if request is None:
            os._exit(0)
        forked = fork_for(request, channel)
        if forked is None:
            channel.close()
            own = start_own_server(request, descriptors)
            if own is None:
                return request, descriptors
            channel = own
            continue
        for each in descriptors:
            os.close(each)
        wire.send(channel, {"pid": forked})


def hide() -> None:
    """Wait under a name of its own, deaf to signals, and without the streams of anybody."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, wire.NAME.encode(), 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.close(null)


def fork_for(request: dict, channel: socket.socket) -> int | None:
    """Fork a process that the parent of this one adopts; return its pid, and None in the process itself."""
    reading, writing = os.pipe()
    between = os.fork()
    if between:
        os.close(writing)
        os.waitpid(between, 0)
        pid = int.from_bytes(os.read(reading, 8), "little")
        os.close(reading)
        return pid
    os.close(reading)
    pid = os.fork()
    if pid:
        os.write(writing, pid.to_bytes(8, "little"))
        os._exit(0)
    os.close(writing)
    child.await_parent(request["parent"])
    return None


def start_own_server(request: dict, descriptors: list[int]) -> socket.socket | None:
    """Fork the server of this process, if it has one; returns its channel in the server, None in the process."""
    child.enter_group(request)
    if not request["has_server"]:
        return None
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    if os.fork():
        theirs.close()
        request["server"] = ours
        return None
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)
    ours.close()
    for each in descriptors:
        os.close(each)
    return theirs


if __name__ == "__main__":
    main()
