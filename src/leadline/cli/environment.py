"""Checks of the environment for ``leadline doctor``: interpreter, frameworks, machine and disk."""

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
from leadline.records.json_object import JsonObject
from leadline.records.version import __version__

Outcome = Literal["ok", "note", "bad"]

_TIMEOUT_SECONDS: Final = 120
_LOW_DISK_BYTES: Final = 1 << 30
_NETWORK_MOUNTS: Final = {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "ceph", "9p", "fuse.sshfs", "fuse.s3fs"}
_SITE_PACKAGES: Final = re.compile(r"python(3\.\d+)/(?:site|dist)-packages")

_PROBE: Final = """
import importlib.util, json, sys
found = {"python": "%d.%d.%d" % sys.version_info[:3], "executable": sys.executable, "isolated": sys.flags.isolated}
try:
    import leadline.training.session.api
    found["leadline"] = leadline.__version__
except Exception as error:
    found["leadline_error"] = type(error).__name__ + ": " + str(error)
for name in ("numpy", "torch", "xgboost", "lightgbm"):
    try:
        found[name] = __import__(name).__version__
    except ImportError:
        found[name] = None
    except Exception as error:
        found[name + "_error"] = type(error).__name__ + ": " + str(error)
for name in ("tensorflow", "mxnet"):  # take seconds to import
    found[name] = "installed" if importlib.util.find_spec(name) else None
if found.get("torch"):
    import torch
    found["cuda"] = torch.cuda.device_count() if torch.cuda.is_available() else 0
sys.stdout.write("\\n" + json.dumps(found) + "\\n")
"""
"""Runs in the interpreter of the command, which may be any Python 3."""

_TRIAL: Final = """
import json, sys, torch, leadline
from leadline.torch import Hook
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
hook = Hook(model, out=sys.argv[1], name="trial", preset=None,
            capture=["losses:every=1", "gradients:every=1", "weights:every=1", "layers:every=1"])
for _ in range(2):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(torch.ones(4, 2)), torch.ones(4, 1)).backward()
    optimizer.step()
hook.close()
run = leadline.open_run(hook.run)
missing = [name for name in ("losses", "gradients", "weights", "relu_output") if not run.tensor_names(collection=name)]
off = [worker.off.error for worker in run.worker_documents().values() if worker.off is not None]
sys.stdout.write("\\n" + json.dumps({"missing": missing, "off": off}) + "\\n")
"""
"""A training of two steps that reports the collections missing from its run."""


@dataclass(frozen=True, slots=True)
class EnvironmentCheck:
    """The result of one check."""

    name: str
    outcome: Outcome
    message: str


def check_all(interpreter: str, command: Sequence[str], root: str) -> list[EnvironmentCheck]:
    """Run all checks, ordered by how early a problem shows up in a training.

    Args:
        interpreter: The Python of the training.
        command: The command to run; empty without one.
        root: The runs directory.
    """
    flag = isolating_flag(list(command)) if command else None
    probe = _run_probe(interpreter, _PROBE)
    return [
        *_interpreter(interpreter, probe, flag),
        *_frameworks(interpreter, probe, is_run_anyway=bool(command)),
        *_python_path(os.environ, probe),
        _gpus(probe),
        *_limits(),
        *_disk(root),
    ]


def _run_probe(interpreter: str, body: str, *arguments: str) -> JsonObject:
    """The output of a program in another interpreter; ``error`` if it fails."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LEADLINE_")}
    try:
        done = subprocess.run(
            [interpreter, "-c", body, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"error": str(error)}
    try:
        return dict(json.loads(done.stdout.strip().rpartition("\n")[2]))
    except ValueError:
        return {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}


def _interpreter(interpreter: str, probe: Mapping[str, Any], flag: str | None) -> Iterator[EnvironmentCheck]:
    if "error" in probe:
        yield EnvironmentCheck("python", "bad", f"{interpreter} does not run: {probe['error']}")
        return
    yield EnvironmentCheck("python", "ok", f"{probe['python']} at {interpreter}")
    if flag is not None:
        fix = "remove it, or call leadline.watch() in the script"
        yield EnvironmentCheck("isolation", "bad", f"Python's option {flag} prevents Leadline from loading; {fix}")
    if "leadline_error" in probe:
        install = f"install it with: {interpreter} -m pip install leadline"
        yield EnvironmentCheck(
            "leadline", "bad", f"cannot be imported by that interpreter ({probe['leadline_error']}); {install}"
        )
    elif probe["leadline"] != __version__:
        yield EnvironmentCheck(
            "leadline",
            "note",
            f"{probe['leadline']} in that interpreter, {__version__} here; install the same version in both",
        )
    else:
        suffix = "" if is_this_interpreter(interpreter) else ", also in that interpreter"
        yield EnvironmentCheck("leadline", "ok", f"{probe['leadline']}{suffix}")


def _frameworks(interpreter: str, probe: Mapping[str, Any], *, is_run_anyway: bool) -> Iterator[EnvironmentCheck]:
    if "error" in probe:
        return
    for name in ("numpy", "torch"):
        if f"{name}_error" in probe:
            yield EnvironmentCheck(name, "bad", f"cannot be imported: {probe[f'{name}_error']}")
    if probe.get("numpy"):
        is_new = tuple(int(part) for part in probe["numpy"].split(".")[:2]) >= (1, 23)
        message = probe["numpy"] if is_new else f"{probe['numpy']} is too old; 1.23 or newer is required"
        yield EnvironmentCheck("numpy", "ok" if is_new else "bad", message)
    elif "numpy_error" not in probe:
        yield EnvironmentCheck("numpy", "bad", f"not installed; install it with: {interpreter} -m pip install numpy")
    others = [name for name in ("xgboost", "lightgbm", "tensorflow", "mxnet") if probe.get(name)]
    for name in others:
        yield EnvironmentCheck(name, "ok", probe[name])
    if not probe.get("torch"):
        if "torch_error" not in probe and not others:
            yield EnvironmentCheck("torch", "note", "not installed; only leadline.Hook and system metrics are captured")
        return
    if is_run_anyway:  # the training itself shows whether the hooks work
        yield EnvironmentCheck("torch", "ok", probe["torch"])
    elif probe.get("leadline") and probe.get("numpy"):
        yield _try_hooks(interpreter, probe["torch"])


def _try_hooks(interpreter: str, version: str) -> EnvironmentCheck:
    """Train two steps to check that the hooks work with the installed version of PyTorch."""
    with tempfile.TemporaryDirectory(prefix="leadline-doctor-") as folder:
        result = _run_probe(interpreter, _TRIAL, folder)
    if "error" in result:
        return EnvironmentCheck("torch", "bad", f"{version}: a trial training of two steps failed: {result['error']}")
    if result["off"]:
        return EnvironmentCheck("torch", "bad", f"{version}: the hooks failed: {result['off'][0]}")
    if result["missing"]:
        return EnvironmentCheck("torch", "bad", f"{version}: the hooks did not capture {', '.join(result['missing'])}")
    return EnvironmentCheck("torch", "ok", f"{version}: hooks work")


def _python_path(environment: Mapping[str, str], probe: Mapping[str, Any]) -> Iterator[EnvironmentCheck]:
    version = ".".join(str(probe.get("python", "")).split(".")[:2])
    for entry in environment.get("PYTHONPATH", "").split(os.pathsep):
        other = _SITE_PACKAGES.search(entry)
        if other is not None and version and other[1] != version:
            yield EnvironmentCheck(
                "PYTHONPATH", "note", f"{entry} belongs to Python {other[1]}, but is on the path of Python {version}"
            )
        if entry and os.path.isfile(os.path.join(entry, "sitecustomize.py")):
            yield EnvironmentCheck("PYTHONPATH", "ok", f"the sitecustomize in {entry} runs after Leadline's")
    if environment.get("LEADLINE_DISABLED", "") not in ("", "0"):
        yield EnvironmentCheck("LEADLINE_DISABLED", "note", "is set: nothing is captured; unset it")
    if environment.get("LEADLINE_RUN"):
        path = environment["LEADLINE_RUN"]
        yield EnvironmentCheck("LEADLINE_RUN", "note", f"is set to {path}: every training started here joins that run")


def _gpus(probe: Mapping[str, Any]) -> EnvironmentCheck:
    sampler: Any = gpu_sampler(os.environ.get("CUDA_VISIBLE_DEVICES"))
    sampler.sample(time.monotonic())
    names = [str(gpu.get("name", gpu["device"])) for gpu in getattr(sampler, "gpus", ())]
    count = int(probe.get("cuda") or 0)
    if names:
        unread = sorted({metric.partition(".")[2] for metric in sampler.absent if "." in metric})
        message = f"{len(names)}: {', '.join(sorted(set(names)))}"
        if unread:
            return EnvironmentCheck("GPU", "note", f"{message}; not readable: {', '.join(unread)}")
        return EnvironmentCheck("GPU", "ok", f"{message}; NVML readable")
    why = str(sampler.absent.get("gpu", "none"))
    if count:
        return EnvironmentCheck("GPU", "bad", f"PyTorch sees {count}, but their metrics cannot be read: {why}")
    return EnvironmentCheck("GPU", "ok", f"none found: {why}")


def _limits(root: str = "/sys/fs/cgroup", membership: str = "/proc/self/cgroup") -> Iterator[EnvironmentCheck]:
    memory, cores = _lowest(root, membership, "memory.max"), _lowest(root, membership, "cpu.max")
    if memory is not None:
        yield EnvironmentCheck("cgroup", "note", f"memory of all processes is limited to {size(int(memory))}")
    if cores is not None and cores < (os.cpu_count() or 1):
        yield EnvironmentCheck("cgroup", "note", f"CPU is limited to {cores:g} of {os.cpu_count()} cores")


def _lowest(root: str, membership: str, name: str) -> float | None:
    """The lowest limit of that name between our own cgroup (version 2) and the root; None without a limit."""
    try:
        with open(membership, encoding="utf-8") as file:
            group = next((line.strip()[3:] for line in file if line.startswith("0::")), "/")
    except OSError:
        return None
    parts = [part for part in group.split("/") if part and part != ".."]
    limits = []
    for depth in range(len(parts) + 1):
        try:
            with open(os.path.join(root, *parts[:depth], name), encoding="utf-8") as file:
                words = file.read().split()
        except OSError:
            continue
        if words and words[0] != "max":
            limits.append(int(words[0]) / int(words[1]) if len(words) > 1 else float(words[0]))
    return min(limits, default=None)


def _disk(root: str) -> Iterator[EnvironmentCheck]:
    folder = os.path.abspath(os.path.expanduser(root))
    parent = folder
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".leadline-", dir=parent))
    except OSError as error:
        why = f"cannot write to {parent}: {error.strerror}; choose another folder with --out or LEADLINE_ROOT"
        yield EnvironmentCheck("disk", "bad", why)
        return
    disk = os.statvfs(parent)
    free = disk.f_bavail * disk.f_frsize
    message = f"{size(free)} free at {folder}; a run uses at most {size(free // 10)}"
    yield EnvironmentCheck("disk", "note" if free < _LOW_DISK_BYTES else "ok", message)
    kind = _file_system(parent)
    if kind in _NETWORK_MOUNTS:
        yield EnvironmentCheck("disk", "note", f"{folder} is on {kind}; prefer a local folder while the training runs")


def _file_system(folder: str, mounts: str = "/proc/self/mounts") -> str:
    """The type of the file system that holds a folder."""
    best, kind = "", ""
    with open(mounts, encoding="utf-8", errors="replace") as file:
        for line in file:
            _, mount_point, mounted_kind, *_ = line.split()
            mount_point = mount_point.replace("\\040", " ")
            if len(mount_point) >= len(best) and (
                folder == mount_point or folder.startswith(mount_point.rstrip("/") + "/")
            ):
                best, kind = mount_point, mounted_kind
    return kind
