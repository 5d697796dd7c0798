"""Replaces the starts of Python processes in this process by requests to its server.

Imported by ``tests/conftest.py``, by each forked process of Leadline, and, through a ``.pth`` file, by a process that
such a process has replaced itself with (``exec``).
"""

from __future__ import annotations

import glob
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from fork_server import wire

HANDED_DOWN = "FORK_SERVER"
"""Names the pid and the socket of a process that keeps its server while it replaces itself."""
FRAMEWORKS = "fork_server.txt"
"""The file beside the packages of an environment that names the frameworks which its server imports."""
HELD = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # a thread does not survive a fork
    "MALLOC_ARENA_MAX": "2",
    "OPENBLAS_NUM_THREADS": "1",
}
"""Settings of every server, as of a rule worker; a process that asks for other values is started."""
QUICK_XLA = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
"""Flags with which XLA compiles in half of the time: the programs of tests are too small to gain by more."""
SETTINGS = {
    "jax": {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": QUICK_XLA},
    "tensorflow,keras": {
        "KERAS_BACKEND": "tensorflow",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "CUDA_VISIBLE_DEVICES": "-1",
        "XLA_FLAGS": QUICK_XLA,
    },
}
"""Settings of the tests of a framework, by what its server imports: a process without them is started."""
_DECIDES_IMPORTS = (
    "ARROW",
    "AUTOGRAPH",
    "COVERAGE",
    "CUDA",
    "GLIBC",
    "GOTO",
    "HIP_",
    "JAX",
    "JE_",
    "KERAS",
    "KMP",
    "LATE_DYNAMO",
    "LD_",
    "LC_",
    "LANG",
    "MALLOC",
    "MKL",
    "MXNET",
    "DMLC",
    "NCCL",
    "NUMEXPR",
    "NUMPY",
    "NPY",
    "NVIDIA",
    "OMP",
    "OPENBLAS",
    "PYTHON",
    "PYTORCH",
    "TF_",
    "TORCH",
    "VECLIB",
    "XLA",
    "XGB",
)
_HARMLESS = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "TORCHELASTIC_", "TORCH_NCCL_ASYNC")
"""Those that ``child`` heeds, and of torchrun, which no import reads."""
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37

_posix_spawn, _posix_spawnp, _execve, _listdir = os.posix_spawn, os.posix_spawnp, os.execve, os.listdir
_fork_exec: Callable[..., int] | None = None
_lock = threading.Lock()
_servers: dict[str, tuple[socket.socket, dict[str, str]] | None] = {}
"""The server of an interpreter, and the settings that it has; None: it has none, and its processes are started."""
_owner = 0
_may_start_servers = False
_starts_for_real = False
_environment: dict[str, str] = {}
"""That of this process when its starts were replaced."""
counts = {"forked": 0, "started": 0}
"""Python processes that this process has started, by way."""


def decisive(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that may decide what an import does."""
    found = {
        name: value
        for name, value in environment.items()
        if name.startswith(_DECIDES_IMPORTS) and not name.startswith(_HARMLESS)
    }
    return {name: value for name, value in found.items() if HELD.get(name) != value}


@contextmanager
def real_starts() -> Iterator[None]:
    """Start processes for real within a block."""
    global _starts_for_real
    before, _starts_for_real = _starts_for_real, True
    try:
        yield
    finally:
        _starts_for_real = before


def install(server: socket.socket | None = None) -> None:
    """Replace the starts of this process.

    Args:
        server: Its server; None: one is started for each interpreter when it is needed.
    """
    global _owner, _may_start_servers, _environment, _fork_exec
    import _posixsubprocess

    _owner, _may_start_servers, _environment = os.getpid(), server is None, dict(os.environ)
    _servers.clear()
    if server is not None:
        _servers[sys.executable] = server, decisive(_environment)
    if _fork_exec is None:
        _fork_exec = _posixsubprocess.fork_exec
    os.posix_spawn, os.posix_spawnp, os.execve, os.listdir = _spawn_or_fork, _spawnp_or_fork, _exec_with, _list_visible
    _posixsubprocess.fork_exec = _start_or_fork  # type: ignore[assignment]
    if "subprocess" in sys.modules:
        sys.modules["subprocess"]._fork_exec = _start_or_fork  # type: ignore[attr-defined]


def is_installed() -> bool:
    """Return whether the starts of this process are replaced."""
    return _owner == os.getpid()


def as_started(words: Sequence[str]) -> list[str]:
    """Return a command as the kernel starts it: with the interpreter that the first line of a script names."""
    with suppress(OSError), open(words[0], "rb") as file:
        if file.read(2) == b"#!":
            interpreter = os.fsdecode(file.readline()).strip()
            return [interpreter, *words] if os.path.dirname(interpreter) == os.path.dirname(words[0]) else list(words)
    return list(words)


def program_of(words: Sequence[str]) -> dict[str, Any] | None:
    """Return what a command runs, if a forked process can run it."""
    options = list(words[1:])
    while options and options[0] in ("-P", "-u"):
        options.pop(0)
    flags = list(words[1 : len(words) - len(options)])
    if len(options) >= 2 and options[0] == "-m" and (wire.is_own(options[1]) or options[1] == wire.LAUNCHER):
        return {"flags": flags, "module": options[1], "arguments": options[2:]}
    if options and not options[0].startswith("-"):
        return {"flags": flags, "script": options[0], "arguments": options[1:]}
    return None


def _request(
    words: Sequence[Any], environment: Mapping[Any, Any], folder: str | None
) -> tuple[socket.socket, dict[str, Any]] | None:
    """Return the server and the request for a command; None: it must be started."""
    if os.getpid() != _owner or _starts_for_real or not words:
        return None
    command = as_started([os.fsdecode(word) for word in words])
    program = program_of(command)
    if program is None:
        return None
    variables = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
    server = _server_of(command[0], variables)
    if server is None:
        return None
    where = folder or os.getcwd()
    if "script" in program and not _is_text(os.path.join(where, program["script"])):
        return None
    launches = "module" in program or not program["script"].endswith(".py")
    return server, {
        **program,
        "command": command,
        "environment": variables,
        "folder": where,
        "parent": _owner,
        "has_server": launches or "LEADLINE_NODE" not in variables,
        **_inherited(),
    }


def _is_text(path: str) -> bool:
    """Return whether a file is a script, and no folder or archive that the interpreter would run, too."""
    with suppress(OSError), open(path, "rb") as file:
        return b"\0" not in file.read(4096)
    return False


def _inherited() -> dict[str, Any]:
    """Return what a started process would inherit beside descriptors."""
    import resource

    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    ignored = int(status["SigIgn"], 16)
    return {
        "umask": int(status["Umask"], 8),
        "ignored": [number for number in signal.valid_signals() if ignored >> (number - 1) & 1],
        "mask": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "cpus": sorted(os.sched_getaffinity(0)),
        "limits": {
            name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")
        },
    }


def _server_of(interpreter: str, variables: Mapping[str, str]) -> socket.socket | None:
    with _lock:
        if interpreter not in _servers:
            _servers[interpreter] = _start_server(interpreter) if _may_start_servers else None
    server, settings = _servers[interpreter] or (None, {})
    return server if decisive(variables) == settings else None


def _start_server(interpreter: str) -> tuple[socket.socket, dict[str, str]] | None:
    """Start the server of an interpreter, if ``scripts/setup`` has provided for one."""
    frameworks = _frameworks_of(os.path.dirname(os.path.dirname(interpreter)))
    if frameworks is None:
        return None
    ours, theirs = socket.socketpair()
    clean = {name: value for name, value in _environment.items() if not name.startswith(("LEADLINE", "PYTHONPATH"))}
    places = _environment.get("PYTHONPATH", "").split(os.pathsep)
    sources = [place for place in places if os.path.isfile(os.path.join(place, "leadline", "__init__.py"))]
    clean |= {"PYTHONPATH": os.pathsep.join(sources)} if sources else {}  # other sources, as of scripts/mutants
    clean |= {"OMP_NUM_THREADS": "1", **HELD, **SETTINGS.get(frameworks, {})}
    words = [interpreter, os.path.join(os.path.dirname(__file__), "server.py"), frameworks, "9"]
    actions = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 9)]
    if theirs.fileno() == 9:
        theirs.set_inheritable(True)
        actions = []
    _posix_spawn(interpreter, words, clean, file_actions=actions)
    theirs.close()
    answer, _ = wire.receive(ours)
    if answer is None or "refused" in answer:
        ours.close()
        sys.stderr.write(f"fork server of {interpreter}: {answer['refused'] if answer else 'failed'}\n")
        return None
    return ours, decisive(clean)


def _frameworks_of(environment: str) -> str | None:
    for folder in glob.glob(os.path.join(glob.escape(environment), "lib", "python3*", "site-packages")):
        with suppress(FileNotFoundError), open(os.path.join(folder, FRAMEWORKS)) as file:
            return file.read().strip()
    return None


def _fork(server: socket.socket, request: dict[str, Any], descriptors: dict[int, int]) -> int:
    """Have a process forked, with these descriptors by their numbers in it; return its pid."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    with _lock:
        was_subreaper = ctypes.c_int()
        libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(was_subreaper), 0, 0, 0)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            wire.send(server, {**request, "numbers": list(descriptors)}, list(descriptors.values()))
            answer, _ = wire.receive(server)
        finally:
            if not was_subreaper.value:
                libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    if answer is None:
        raise OSError("the fork server has died")
    counts["forked"] += 1
    return int(answer["pid"])


def _inheritable() -> dict[int, int]:
    """Return the open descriptors that a started process would have."""
    found = {}
    for name in _listdir("/proc/self/fd"):
        try:
            if os.get_inheritable(int(name)):
                found[int(name)] = int(name)
        except OSError:  # the one of the listing itself
            continue
    return found


def _start_or_fork(*arguments: Any) -> int:
    """Do what ``_posixsubprocess.fork_exec`` does."""
    assert _fork_exec is not None
    if len(arguments) != 23:
        return _fork_exec(*arguments)
    (
        words,
        programs,
        close_others,
        kept,
        folder,
        variables,
        stdin,
        _,
        _,
        stdout,
        _,
        stderr,
        _,
        failure,
        restores,
        has_session,
        group,
        gid,
        groups,
        uid,
        umask,
        before,
        _,
    ) = arguments
    plain = gid is None and groups is None and uid is None and umask < 0 and before is None and programs
    environment = dict(os.environ) if variables is None else dict(os.fsdecode(each).split("=", 1) for each in variables)
    asked = _request(words, environment, os.fsdecode(folder) if folder else None) if plain else None
    if asked is None or os.fsdecode(programs[0]) != os.fsdecode(words[0]):
        counts["started"] += 1
        return _fork_exec(*arguments)
    server, request = asked
    descriptors = {} if close_others else _inheritable()
    descriptors |= {number: number for number in kept}
    descriptors.pop(failure, None)
    for number, given in enumerate((stdin, stdout, stderr)):
        descriptors[number] = given if given >= 0 else number
    if restores:
        request["ignored"] = [each for each in request["ignored"] if each not in (signal.SIGPIPE, signal.SIGXFSZ)]
    return _fork(server, request | {"has_session": bool(has_session), "group": group}, descriptors)


def _spawn(search: bool, path: str, words: Sequence[Any], environment: Mapping[Any, Any], **options: Any) -> int:
    known = {"file_actions", "setsigmask", "setsigdef", "setsid", "setpgroup"}
    asked = _request(words, environment, None) if options.keys() <= known else None
    if asked is None or path != words[0]:
        counts["started"] += 1
        return (_posix_spawnp if search else _posix_spawn)(path, words, environment, **options)
    server, request = asked
    descriptors, opened = _inheritable(), list[int]()
    for action, number, *rest in options.get("file_actions") or ():
        if action == os.POSIX_SPAWN_OPEN:
            descriptors[number] = os.open(*rest)
            opened.append(descriptors[number])
        elif action == os.POSIX_SPAWN_DUP2:
            descriptors[rest[0]] = descriptors.get(number, number)
        else:
            descriptors.pop(number, None)
    request |= {"has_session": bool(options.get("setsid")), "group": options.get("setpgroup", -1)}
    if options.get("setsigmask") is not None:
        request["mask"] = [int(each) for each in options["setsigmask"]]
    restored = {int(each) for each in options.get("setsigdef") or ()}
    request["ignored"] = [each for each in request["ignored"] if each not in restored]
    try:
        return _fork(server, request, descriptors)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _spawn_or_fork(path: str, words: Sequence[Any], environment: Mapping[Any, Any], **options: Any) -> int:
    return _spawn(False, path, words, environment, **options)


def _spawnp_or_fork(path: str, words: Sequence[Any], environment: Mapping[Any, Any], **options: Any) -> int:
    return _spawn(True, path, words, environment, **options)


def _exec_with(path: str, words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Replace this process, which keeps its server if the new program is a module of Leadline."""
    server, _ = _servers.get(sys.executable) or (None, {})
    program = program_of(words) if path == sys.executable and os.getpid() == _owner else None
    if server is None or program is None or not wire.is_own(program.get("module", "")):
        return _execve(path, words, environment)
    os.set_inheritable(server.fileno(), True)
    return _execve(path, words, {**environment, HANDED_DOWN: f"{_owner}:{server.fileno()}"})


def _list_visible(path: Any = ".") -> list[Any]:
    """Do what ``os.listdir`` does, without the servers: to a monitor they do not exist."""
    names: list[Any] = _listdir(path)
    return [name for name in names if not _is_server(name)] if path in ("/proc", b"/proc") else names


def _is_server(name: str | bytes) -> bool:
    try:
        with open(f"/proc/{int(name)}/comm") as file:
            return file.read().strip() == wire.NAME
    except (ValueError, OSError):
        return False


def take_over() -> None:
    """Continue with the server of the program that this process was before; called by a ``.pth`` file."""
    pid, _, number = os.environ.pop(HANDED_DOWN, "").partition(":")
    if pid == str(os.getpid()):
        os.set_inheritable(int(number), False)
        install(socket.socket(fileno=int(number)))
