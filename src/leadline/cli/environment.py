"""What stands between a training and being watched: checks of interpreter, machine and disk, a line each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from leadline.agent.launch import is_this_interpreter, isolating_flag
from leadline.monitor.machine import gpu_sampler
from leadline.records.formatting import size
from leadline.records.version import __version__

Outcome = Literal["ok", "note", "bad"]

_PATIENCE_SECONDS: Final = 120
_LITTLE_BYTES: Final = 1 << 30
_REMOTE: Final = {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "ceph", "9p", "fuse.sshfs", "fuse.s3fs"}
_SITE_OF_VERSION: Final = re.compile(r"python(3\.\d+)/(?:site|dist)-packages")

_PROBE: Final = """
import json, sys
said = {"python": "%d.%d.%d" % sys.version_info[:3], "executable": sys.executable, "isolated": sys.flags.isolated}
try:
    import leadline.training.session.session
    said["leadline"] = leadline.__version__
except Exception as error:
    said["leadline_error"] = type(error).__name__ + ": " + str(error)
for name in ("numpy", "torch", "xgboost", "lightgbm"):
    try:
        said[name] = __import__(name).__version__
    except ImportError:
        said[name] = None
    except Exception as error:
        said[name + "_error"] = type(error).__name__ + ": " + str(error)
if said.get("torch"):
    import torch
    said["cuda"] = torch.cuda.device_count() if torch.cuda.is_available() else 0
sys.stdout.write("\\n" + json.dumps(said) + "\\n")
"""
"""Runs in the command's own interpreter, which may be any Python 3."""

_FIT: Final = """
import json, sys, torch, leadline
from leadline.torch import Hook
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
hook = Hook(model, out=sys.argv[1], name="fit", preset=None,
            capture=["losses:every=1", "gradients:every=1", "weights:every=1", "layers:every=1"])
for _ in range(2):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(torch.ones(4, 2)), torch.ones(4, 1)).backward()
    optimizer.step()
hook.close()
run = leadline.open_run(hook.run)
missing = [name for name in ("losses", "gradients", "weights", "relu_output") if not run.tensor_names(collection=name)]
off = [each["off"]["error"] for each in run.worker_documents().values() if each.get("off")]
sys.stdout.write("\\n" + json.dumps({"missing": missing, "off": off}) + "\\n")
"""
"""A training of two steps: does everything arrive that a hook should see?"""


@dataclass(frozen=True, slots=True)
class EnvironmentCheck:
    """One thing that was looked at."""

    name: str
    outcome: Outcome
    said: str


def check_all(interpreter: str, command: Sequence[str], root: str) -> list[EnvironmentCheck]:
    """Every check, in the order in which things go wrong.

    Args:
        interpreter: The Python that trains.
        command: What is going to run; empty where nothing is.
        root: The folder below which runs stand.
    """
    flag = isolating_flag(list(command)) if command else None
    found = _ask(interpreter, _PROBE)
    return [
        *_interpreter(interpreter, found, flag),
        *_frameworks(interpreter, found, is_run_anyway=bool(command)),
        *_python_path(os.environ, found),
        _gpus(found),
        *_limits(),
        *_disk(root),
    ]


def _ask(interpreter: str, body: str, *arguments: str) -> dict[str, Any]:
    """What a program says in another interpreter; ``error`` where it does not."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LEADLINE_")}
    try:
        done = subprocess.run(
            [interpreter, "-c", body, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    try:
        return dict(json.loads(done.stdout.strip().rpartition("\n")[2]))
    except ValueError:
        return {"error": (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]}


def _interpreter(interpreter: str, found: Mapping[str, Any], flag: str | None) -> Iterator[EnvironmentCheck]:
    if "error" in found:
        yield EnvironmentCheck("python", "bad", f"{interpreter} does not answer: {found['error']}")
        return
    yield EnvironmentCheck("python", "ok", f"{found['python']} at {interpreter}")
    if flag is not None:
        instead = "leave it out, or call leadline.watch() in the script"
        yield EnvironmentCheck(
            "isolation", "bad", f"Python's option {flag} keeps Leadline out of the training; {instead}"
        )
    if "leadline_error" in found:
        install = f"install it there with: {interpreter} -m pip install leadline"
        yield EnvironmentCheck("leadline", "bad", f"cannot be imported there ({found['leadline_error']}); {install}")
    elif found["leadline"] != __version__:
        yield EnvironmentCheck(
            "leadline", "note", f"{found['leadline']} there, {__version__} here: install one version in both"
        )
    else:
        where = "" if is_this_interpreter(interpreter) else ", also in that interpreter"
        yield EnvironmentCheck("leadline", "ok", f"{found['leadline']}{where}")


def _frameworks(interpreter: str, found: Mapping[str, Any], *, is_run_anyway: bool) -> Iterator[EnvironmentCheck]:
    if "error" in found:
        return
    for name in ("numpy", "torch"):
        if f"{name}_error" in found:
            yield EnvironmentCheck(name, "bad", f"cannot be imported: {found[f'{name}_error']}")
    if found.get("numpy"):
        is_new = tuple(int(part) for part in found["numpy"].split(".")[:2]) >= (1, 23)
        said = found["numpy"] if is_new else f"{found['numpy']} is too old; it must be 1.23 or newer"
        yield EnvironmentCheck("numpy", "ok" if is_new else "bad", said)
    elif "numpy_error" not in found:
        yield EnvironmentCheck("numpy", "bad", f"is not installed; install it with: {interpreter} -m pip install numpy")
    boosters = [name for name in ("xgboost", "lightgbm") if found.get(name)]
    for name in boosters:
        yield EnvironmentCheck(name, "ok", found[name])
    if not found.get("torch"):
        if "torch_error" not in found and not boosters:
            yield EnvironmentCheck(
                "torch", "note", "is not installed there: only leadline.Hook and the machine are watched"
            )
        return
    if is_run_anyway:  # and shows better than a trial whether the hooks fit
        yield EnvironmentCheck("torch", "ok", found["torch"])
    elif found.get("leadline") and found.get("numpy"):
        yield _fit(interpreter, found["torch"])


def _fit(interpreter: str, version: str) -> EnvironmentCheck:
    """Whether the hooks see what they should with that version of PyTorch: two steps are trained."""
    with tempfile.TemporaryDirectory(prefix="leadline-doctor-") as folder:
        said = _ask(interpreter, _FIT, folder)
    if "error" in said:
        return EnvironmentCheck(
            "torch", "bad", f"{version}: a training of two steps could not be watched: {said['error']}"
        )
    if said["off"]:
        return EnvironmentCheck("torch", "bad", f"{version}: the hooks do not fit it: {said['off'][0]}")
    if said["missing"]:
        return EnvironmentCheck("torch", "bad", f"{version}: the hooks do not see {', '.join(said['missing'])} there")
    return EnvironmentCheck("torch", "ok", f"{version}: the hooks fit it")


def _python_path(environment: Mapping[str, str], found: Mapping[str, Any]) -> Iterator[EnvironmentCheck]:
    own = ".".join(str(found.get("python", "")).split(".")[:2])
    for entry in environment.get("PYTHONPATH", "").split(os.pathsep):
        other = _SITE_OF_VERSION.search(entry)
        if other is not None and own and other[1] != own:
            yield EnvironmentCheck(
                "PYTHONPATH", "note", f"{entry} is of Python {other[1]}, and Python {own} will read it"
            )
        if entry and os.path.isfile(os.path.join(entry, "sitecustomize.py")):
            yield EnvironmentCheck("PYTHONPATH", "ok", f"the sitecustomize in {entry} is run after Leadline's")
    if environment.get("LEADLINE_DISABLED", "") not in ("", "0"):
        yield EnvironmentCheck("LEADLINE_DISABLED", "note", "is set: nothing is watched; unset it")
    if environment.get("LEADLINE_RUN"):
        place = environment["LEADLINE_RUN"]
        yield EnvironmentCheck("LEADLINE_RUN", "note", f"is set to {place}: every training started here joins that run")


def _gpus(found: Mapping[str, Any]) -> EnvironmentCheck:
    sampler: Any = gpu_sampler(os.environ.get("CUDA_VISIBLE_DEVICES"))
    sampler.sample(time.monotonic())
    names = [str(each.get("name", each["device"])) for each in getattr(sampler, "gpus", ())]
    count = int(found.get("cuda") or 0)
    if names:
        unread = sorted({each.partition(".")[2] for each in sampler.absent if "." in each})
        said = f"{len(names)}: {', '.join(sorted(set(names)))}"
        if unread:
            return EnvironmentCheck("gpu", "note", f"{said}; not readable: {', '.join(unread)}")
        return EnvironmentCheck("gpu", "ok", f"{said}; NVML readable")
    why = str(sampler.absent.get("gpu", "none"))
    if count:
        return EnvironmentCheck("gpu", "bad", f"PyTorch sees {count}, but their metrics cannot be read: {why}")
    return EnvironmentCheck("gpu", "ok", f"none is watched: {why}")


def _limits(root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> Iterator[EnvironmentCheck]:
    memory, cores = _lowest(root, own, "memory.max"), _lowest(root, own, "cpu.max")
    if memory is not None:
        yield EnvironmentCheck("cgroup", "note", f"at most {size(int(memory))} of memory for all processes together")
    if cores is not None and cores < (os.cpu_count() or 1):
        yield EnvironmentCheck("cgroup", "note", f"at most {cores:g} of {os.cpu_count()} cores")


def _lowest(root: str, own: str, name: str) -> float | None:
    """The lowest limit of that name between our own group (version 2) and the root; None: there is none."""
    try:
        with open(own, encoding="utf-8") as file:
            group = next((line.strip()[3:] for line in file if line.startswith("0::")), "/")
    except OSError:
        return None
    parts = [each for each in group.split("/") if each and each != ".."]
    found = []
    for depth in range(len(parts) + 1):
        try:
            with open(os.path.join(root, *parts[:depth], name), encoding="utf-8") as file:
                words = file.read().split()
        except OSError:
            continue
        if words and words[0] != "max":
            found.append(int(words[0]) / int(words[1]) if len(words) > 1 else float(words[0]))
    return min(found, default=None)


def _disk(root: str) -> Iterator[EnvironmentCheck]:
    folder = os.path.abspath(os.path.expanduser(root))
    above = folder
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".leadline-", dir=above))
    except OSError as error:
        why = f"{above} cannot be written: {error.strerror}; choose another place with --out or LEADLINE_ROOT"
        yield EnvironmentCheck("disk", "bad", why)
        return
    disk = os.statvfs(above)
    free = disk.f_bavail * disk.f_frsize
    said = f"{size(free)} free at {folder}; a run takes at most {size(free // 10)} of it"
    yield EnvironmentCheck("disk", "note" if free < _LITTLE_BYTES else "ok", said)
    kind = _file_system(above)
    if kind in _REMOTE:
        yield EnvironmentCheck(
            "disk", "note", f"{folder} is on {kind}: a local folder is better while the training runs"
        )


def _file_system(folder: str, mounts: str = "/proc/self/mounts") -> str:
    """The type of the file system that holds a folder."""
    best, kind = "", ""
    with open(mounts, encoding="utf-8", errors="replace") as file:
        for line in file:
            _, place, found, *_ = line.split()
            place = place.replace("\\040", " ")
            if len(place) >= len(best) and (folder == place or folder.startswith(place.rstrip("/") + "/")):
                best, kind = place, found
    return kind
