"""The Python processes that Leadline starts: they import Leadline and installed packages, never the user's files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Final

USERS_PATH: Final = "LEADLINE_PYTHONPATH"
"""The variable that keeps the user's ``PYTHONPATH`` in the environment of our processes."""
_PATH: Final = "PYTHONPATH"
_PACKAGES: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder that contains the package ``leadline``."""


def own_command(module: str, *arguments: str) -> list[str]:
    """Return the command of a process of ours; with ``-P`` it does not import from the working folder."""
    return [sys.executable, "-P", "-m", module, *arguments]


def own_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a process of ours.

    Its ``PYTHONPATH`` has only folders of installed packages: a ``psutil.py`` or ``sitecustomize.py`` in a source
    folder of the user is neither imported nor run.
    """
    result = {USERS_PATH: environment.get(_PATH, ""), **environment}
    installed = [entry for entry in _entries(environment, _PATH) if _has_packages(entry)]
    return _with_path(result, os.pathsep.join(installed))


def users_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of a program of the user: ``PYTHONPATH`` is as the user has set it."""
    result = dict(environment)
    path = result.pop(USERS_PATH, None)
    return result if path is None else _with_path(result, path)


def import_from(folders: Iterable[str]) -> None:
    """Let this process import what a custom rule or action needs: from folders, and from the user's ``PYTHONPATH``.

    They come last, so that they hide nothing.
    """
    entries = [*(folder or os.getcwd() for folder in folders), *_entries(os.environ, USERS_PATH)]
    sys.path.extend(entry for entry in dict.fromkeys(entries) if entry not in sys.path)


def _entries(environment: Mapping[str, str], name: str) -> list[str]:
    return [entry for entry in environment.get(name, "").split(os.pathsep) if entry]


def _with_path(environment: dict[str, str], path: str) -> dict[str, str]:
    environment.pop(_PATH, None)
    return environment | ({_PATH: path} if path else {})


def _has_packages(folder: str) -> bool:
    """Return whether packages are installed in a folder, or Leadline itself is imported from it."""
    if os.path.abspath(folder) == _PACKAGES:
        return True
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False
