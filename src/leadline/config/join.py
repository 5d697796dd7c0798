"""The run that the agents of several nodes share: the first of them creates it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from leadline.config.resolve import base_of, check_name, prepare
from leadline.config.run_config import RunConfig, runs_root, spool_root
from leadline.config.store_uri import is_uri
from leadline.errors import RunExistsError
from leadline.reader import liveness
from leadline.store import layout

_OVER: Final = ("Completed", "Stopped")


def prepare_joint(config: RunConfig, command: Sequence[str], name: str) -> str:
    """Join a run, or create it; one that was interrupted is resumed.

    Args:
        name: The name of the run, or its path.
    Returns:
        The absolute path of the run.
    Raises:
        RunExistsError: The run has ended.
        LeadlineError: The configuration is invalid; nothing was created.
    """
    path = _path(config, name)
    if _is_over(path):
        raise RunExistsError(
            f"the run at {path} has ended ({liveness.effective_status(path)}) and cannot be joined; give another name"
        )
    return prepare(replace(config, at=path), command)


def prepare_found(config: RunConfig, command: Sequence[str], name: str) -> str:
    """Join the run of a distributed job, or create it; after runs of that name that have ended, a further one.

    Args:
        name: The name of the job, which a later one may have again.
    Raises:
        LeadlineError: The configuration is invalid; nothing was created.
    """
    first = _path(config, name)
    paths = (first, *(f"{first}-{count}" for count in range(2, 10_000)))
    return prepare(replace(config, at=next(path for path in paths if not _is_over(path))), command)


def _path(config: RunConfig, name: str) -> str:
    if os.sep in name:
        return os.path.abspath(os.path.expanduser(name))
    check_name(name, "--join")
    root = runs_root(config.out or base_of(config).out, can_be_remote=True)
    return os.path.join(spool_root() if is_uri(root) else os.path.abspath(os.path.expanduser(root)), name)


def _is_over(path: str) -> bool:
    return layout.is_run(path) and liveness.effective_status(path) in _OVER
