"""The run that the agents of several nodes share: the first of them creates it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from leadline.config.run_config import RunConfig, runs_root, spool_root
from leadline.config.store_uri import is_uri, parse_place
from leadline.errors import RunExistsError
from leadline.launch.prepare import check_joinable, check_name, is_over, prepare
from leadline.launch.resolve import base_of
from leadline.remote.claim import RunOverError


def prepare_joint(config: RunConfig, command: Sequence[str], name: str) -> str:
    """Join a run, or create it; one that was interrupted is resumed.

    Args:
        name: The name of the run, its path or URI.
    Returns:
        The absolute path of the run.
    Raises:
        RunExistsError: The run has ended.
        LeadlineError: The configuration is invalid; nothing was created.
    """
    if is_uri(place := parse_place(name)):
        root, _, name = place.rpartition("/")
        config = replace(config, out=root)
    path = _path(config, name)
    check_joinable(path)
    return prepare(replace(config, at=path), command)


def prepare_found(config: RunConfig, command: Sequence[str], name: str) -> str:
    """Join the run of a distributed job, or create it; after runs of that name that have ended, a further one.

    Args:
        name: The name of the job, which a later one may have again.
    Raises:
        LeadlineError: The configuration is invalid; nothing was created.
    """
    first = _path(config, name)
    for path in (first, *(f"{first}-{count}" for count in range(2, 10_000))):
        if not is_over(path):
            with suppress(RunOverError):  # as the store tells
                return prepare(replace(config, at=path), command)
    raise RunExistsError(f"10,000 runs of the name {name} exist below {os.path.dirname(first)}")


def _path(config: RunConfig, name: str) -> str:
    if os.sep in name:
        return os.path.abspath(os.path.expanduser(name))
    check_name(name, "--join")
    root = runs_root(config.out or base_of(config).out, can_be_remote=True)
    return os.path.join(spool_root() if is_uri(root) else os.path.abspath(os.path.expanduser(root)), name)
