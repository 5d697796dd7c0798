"""Preparation of a run: its configuration resolved, the run directory created."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from importlib import metadata
from typing import Final

from leadline.config.resolve import base_of, resolve
from leadline.config.run_config import RunConfig, runs_root
from leadline.errors import ConfigurationError, RunExistsError
from leadline.judge.action_resolution import try_actions
from leadline.records.version import __version__
from leadline.store.creation import create_run, join_run

_MASK: Final = "****"
_SECRET: Final = re.compile(r"(?i)(pass(word|wd|phrase)?|secret|token|api[-_]?key|access[-_]?key|credential)s?$")
_URL_PASSWORD: Final = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)@")


def prepare(config: RunConfig, command: Sequence[str]) -> str:
    """Check a configuration and create the run directory.

    Returns:
        The absolute path of the run.
    Raises:
        LeadlineError: The configuration is invalid; nothing was created.
    """
    base = base_of(config)
    root = os.path.abspath(os.path.expanduser(runs_root(config.out or base.out)))
    path = config.at or _new_run_path(root, config.name, command)
    manifest = resolve(config, path, base)
    try_actions(manifest.actions)
    manifest = replace(
        manifest, command=mask_secrets(command), started_ns=time.time_ns(), folder=os.getcwd(), versions=_versions()
    )
    (join_run if config.at else create_run)(path, manifest)
    return path


def _new_run_path(root: str, name: str | None, command: Sequence[str]) -> str:
    if name is not None:
        if not re.fullmatch(r"[\w][\w.@+-]*", name):
            raise ConfigurationError(f"--name {name!r}: a run name may contain only letters, digits, '.', '_' and '-'")
        path = os.path.join(root, name)
        if os.path.exists(path):
            raise RunExistsError(f"a run already exists at {path}; choose another --name, or remove it")
        return path
    stem = next((os.path.splitext(os.path.basename(part))[0] for part in command if part.endswith(".py")), "")
    stem = re.sub(r"[^\w.-]+", "-", stem or (os.path.basename(command[0]) if command else ""))
    first = f"{stem or 'run'}-{datetime.now():%m%d-%H%M}"
    candidates = (first, *(f"{first}-{count}" for count in range(2, 10_000)))
    return next(path for path in (os.path.join(root, name) for name in candidates) if not os.path.exists(path))


def mask_secrets(command: Sequence[str]) -> tuple[str, ...]:
    """A command line without the values of options and variables whose names suggest a secret."""
    masked: list[str] = []
    is_secret = False
    for argument in command:
        name, equals, _ = argument.partition("=")
        if is_secret and not argument.startswith("-"):
            masked.append(_MASK)
            is_secret = False
            continue
        is_secret = argument.startswith("-") and not equals and bool(_SECRET.search(name))
        shown = f"{name}={_MASK}" if equals and _SECRET.search(name) else argument
        masked.append(_URL_PASSWORD.sub(rf"\1:{_MASK}@", shown))
    return tuple(masked)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "leadline": __version__, "platform": platform.platform()}
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
    os.execv(sys.executable, [sys.executable, "-m", "leadline.agent", path, *arguments])
