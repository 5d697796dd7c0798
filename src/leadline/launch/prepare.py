"""Creation of a run: its directory, or its part of an object store, and its manifest."""

from __future__ import annotations

import os
import platform
import re
import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from importlib import metadata
from itertools import pairwise
from typing import Final

from leadline.config import trust
from leadline.config.presets import with_limits
from leadline.config.run_config import (
    RunConfig,
    parse_size,
    runs_root,
    spool_root,
)
from leadline.config.secrets import scrub_command
from leadline.config.store_uri import is_uri
from leadline.errors import ConfigurationError, RunExistsError
from leadline.judge.action_resolution import try_actions
from leadline.launch.resolve import base_of, resolve
from leadline.launch.resume import resume_run
from leadline.launch.resume_from_store import resume_joint
from leadline.process.interpreter import own_command, own_environment
from leadline.reader import liveness
from leadline.reader.find_runs import read_manifest
from leadline.records.formatting import printable
from leadline.records.manifest import Manifest
from leadline.records.names import JOB_ENDED
from leadline.records.version import __version__
from leadline.remote.claim import RunInterruptedError, RunResumedError, create_uploaded_run, enter_uploaded_run
from leadline.store import layout
from leadline.store.disk_limit import DiskLimit, write_disk_limit
from leadline.store.incarnations import continue_samples
from leadline.store.run_state import create_run, join_run
from leadline.store.upload_state import DEFAULT_MAX_BYTES, read_upload

_RESUMED: Final = ("Interrupted", "Failed")
"""A run that has ended in one of these ways continues when a process joins it."""
_OVER: Final = ("Completed", "Stopped")
"""A run that has ended in one of these ways cannot be joined."""
_LAUNCHERS: Final = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "leadline"}
)
"""Modules that run another one, which names the run."""


def prepare(config: RunConfig, command: Sequence[str], *, is_attached: bool = False) -> str:
    """Check a configuration and create the run directory.

    Args:
        is_attached: Whether the command runs already, and writes to a local folder.
    Returns:
        The absolute path of the run.
    Raises:
        LeadlineError: The configuration is invalid; nothing was created.
    """
    base = base_of(config)
    _report_left_out(base, config.config)
    root = runs_root(config.out or base.out, can_be_remote=not is_attached)
    is_remote = is_uri(root)
    spool_bytes = parse_size(config.spool_max, "--spool-max") if config.spool_max else DEFAULT_MAX_BYTES
    if config.spool_max is not None and not is_remote:
        raise ConfigurationError(
            "--spool-max bounds the local copy of a run in an object store; give --out s3://…, too"
        )
    max_disk = config.max_disk or base.max_disk
    max_bytes = parse_size(max_disk, "--max-disk") if max_disk else None
    if config.max_disk is not None and is_remote:
        raise ConfigurationError(
            "--max-disk bounds a run on the local disk; for one in an object store, --spool-max bounds the local copy"
        )
    spool = spool_root() if is_remote else os.path.abspath(os.path.expanduser(root))
    path = config.at or _new_run_path(spool, config.name, command, is_shared=is_remote)
    manifest = resolve(config, path, base)
    if is_remote or max_bytes is not None:  # what was removed does not count against the free space at the start
        manifest = replace(manifest, plan=replace(manifest.plan, disk_bytes=None))
    manifest = _started(manifest, command)
    if is_remote:
        path = _create_in_store(manifest, root, spool_bytes, is_shared=config.at is not None)
        _remember(manifest)
    elif _create(manifest, is_shared=config.at is not None) and max_bytes is not None:
        write_disk_limit(path, DiskLimit(max_bytes))
    return path


def prepare_resolved(manifest: Manifest, command: Sequence[str], *, is_shared: bool) -> str:
    """Create the run of a configuration that another process has resolved, on this or on another machine.

    Args:
        manifest: What ``resolve`` has returned.
        is_shared: Whether other processes may create the run, too.
    Returns:
        The absolute path of the run.
    Raises:
        LeadlineError: The run cannot be created or joined.
    """
    path = manifest.uri
    if is_shared:
        check_joinable(path)
    manifest = replace(manifest, plan=with_limits(manifest.plan, os.path.dirname(path)))
    _create(_started(manifest, command), is_shared=is_shared)
    return path


def _started(manifest: Manifest, command: Sequence[str]) -> Manifest:
    """Return a manifest with what belongs to this execution; its actions are tried.

    Raises:
        ConfigurationError: An action cannot be performed.
    """
    try_actions(manifest.actions)
    return replace(
        manifest, command=scrub_command(command), started_ns=time.time_ns(), folder=os.getcwd(), versions=_versions()
    )


def _create(manifest: Manifest, *, is_shared: bool) -> bool:
    """Create the run directory; one that other processes may create is joined, and resumed if it was interrupted.

    Returns:
        Whether this process has created it.
    """
    path, has_created = manifest.uri, True
    if is_shared:
        has_created = join_run(path, manifest)
    else:
        create_run(path, manifest)
    _remember(manifest)
    if not has_created:
        _continue_if_ended(path)
    return has_created


def _create_in_store(manifest: Manifest, root: str, max_bytes: int, *, is_shared: bool) -> str:
    """Create a run in an object store, join it, or resume it; return the run directory of this node."""
    path = manifest.uri
    if not is_shared:
        create_uploaded_run(path, root, manifest, max_bytes=max_bytes)
        return path
    try:
        return enter_uploaded_run(path, root, manifest, max_bytes=max_bytes)
    except (RunInterruptedError, RunResumedError):
        return resume_joint(path, f"{root}/{os.path.basename(path)}", max_bytes=max_bytes)


def check_joinable(path: str) -> None:
    """Raise an error if a run has ended, so that no process can join it.

    Raises:
        RunExistsError: It has ended.
    """
    if is_over(path):
        raise RunExistsError(
            f"the run at {path} has ended ({liveness.effective_status(path)}) and cannot be joined; give another name"
        )


def is_over(path: str) -> bool:
    """Return whether a run has ended and is not resumed by joining it; for one in a store, the store knows."""
    if read_upload(path).is_joint:
        return False
    return layout.is_run(path) and liveness.effective_status(path) in _OVER


def _report_left_out(base: RunConfig, given: str | None) -> None:
    """Say in one line what a configuration does not do that nobody has trusted; the training starts all the same."""
    if base.left_out:
        advice = "read it, then: leadline trust" if given is None else "if you trust that run: --trust-run"
        sys.stderr.write(
            f"leadline: {printable(base.source)}: left out, as it is not trusted: "
            f"{printable(', '.join(base.left_out))}; {advice}\n"
        )


def _remember(manifest: Manifest) -> None:
    """Remember what the person has configured here, for the agent, and for resumptions on this machine."""
    trust.remember_own(trust.digest_of_run(manifest.to_dict()), f"the run {manifest.uri}")
    if manifest.settings and (manifest.actions or any(trust.is_foreign(spec.rule) for spec in manifest.rules)):
        with suppress(OSError):  # as above
            trust.remember(trust.digest_of_settings(manifest.settings), f"the configuration of {manifest.uri}")


def _continue_if_ended(run: str) -> None:
    """Prepare a run that this process joins: one that was interrupted is resumed."""
    read_manifest(run)  # one that this version cannot write is refused
    status = liveness.status_to_join(run)
    if status in _RESUMED:
        resume_run(run, is_joint=True)
    elif status in JOB_ENDED:
        from leadline.reader.resumption import next_samples

        continue_samples(run, next_samples(run))


def check_name(name: str, option: str) -> None:
    """Raise an error if a run cannot have a name.

    Raises:
        ConfigurationError: It contains other characters.
    """
    if not re.fullmatch(r"[\w][\w.@+-]*", name):
        raise ConfigurationError(f"{option} {name!r}: a run name may contain only letters, digits, '.', '_' and '-'")


def _new_run_path(root: str, name: str | None, command: Sequence[str], *, is_shared: bool = False) -> str:
    """Return the path of a new run; where other machines write as well, with a random part."""
    if name is not None:
        check_name(name, "--name")
        path = os.path.join(root, name)
        if os.path.exists(path):
            raise RunExistsError(f"a run already exists at {path}; choose another --name, or remove it")
        return path
    stem = re.sub(r"[^\w.-]+", "-", _trained_by(command)).lstrip("-.")
    first = f"{stem or 'run'}-{datetime.now():%m%d-%H%M}{f'-{secrets.token_hex(2)}' if is_shared else ''}"
    candidates = (first, *(f"{first}-{count}" for count in range(2, 10_000)))
    return next(path for path in (os.path.join(root, name) for name in candidates) if not os.path.exists(path))


def _trained_by(command: Sequence[str]) -> str:
    """Return the name of the script or module that a command runs, without its launchers; else of its program."""
    script = next((os.path.splitext(os.path.basename(word))[0] for word in command if word.endswith(".py")), "")
    modules = [word for option, word in pairwise(command) if option == "-m" and word not in _LAUNCHERS]
    return script or next(iter(modules), os.path.basename(command[0]) if command else "")


def _versions() -> dict[str, str]:
    system = os.uname()  # platform.platform() starts a process
    names = "-".join((system.sysname, system.release, system.machine))
    versions = {"python": platform.python_version(), "leadline": __version__, "platform": names}
    for package in ("torch", "numpy"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def become_agent(path: str, arguments: Sequence[str]) -> None:
    """Replace this process by the agent of a run, with the same pid and terminal and few imports."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, own_command("leadline.agent", path, *arguments), own_environment())
