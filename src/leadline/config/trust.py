"""What a run or a configuration file names may execute only if a person has named it, or has started it before.

A rule or action in a file or module is executed wherever it is imported; most actions run commands or send messages.
A run directory, a bucket or a cloned folder may come from anybody. Their content is therefore identified by a digest
of what it would execute. A digest is trusted that this process was given, or that this user has used before on this
machine: it is a file in ``$LEADLINE_STATE``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from leadline.records.json_object import JsonObject

TRUSTED: Final = "LEADLINE_TRUSTED"
"""The variable with the digest of what a person has just configured, for the agent that this process becomes."""
_STATE: Final = "LEADLINE_STATE"
_INSIDE: Final = frozenset({"stop_training", "StopTraining", "tracker"})
"""Actions that affect only the job itself."""


def is_foreign(rule: str) -> bool:
    """Return whether a rule is a class in a file or module; others are built in, or from installed packages."""
    return ":" in rule


def code_of(rule: str, folder: str) -> str:
    """Return the class of a custom rule, wherever it is named from.

    Args:
        folder: The folder to which the path of a file is relative.
    """
    file, _, name = rule.rpartition(":")
    return f"{os.path.realpath(os.path.join(folder, file))}:{name}" if file.endswith(".py") else rule


def acts_outside(action: str) -> bool:
    """Return whether an action affects more than the job: it runs a command, sends something, or is custom code."""
    return action not in _INSIDE


def digest_of_run(manifest: Mapping[str, Any]) -> str:
    """Return the digest of what a run executes beside the training: custom rules, and actions that act outside."""
    return _digest("run", [*_rules(manifest.get("rules")), *_actions(manifest.get("actions"))])


def digest_of_settings(settings: Mapping[str, Any]) -> str:
    """Return the digest of what the configuration of a run executes or sends."""
    names = ("rules", "on", "targets", "out")
    return _digest("settings", {name: settings.get(name) for name in names})


def digest_of_file(path: str, data: bytes) -> str:
    """Return the digest of a configuration file at its place: the files that it names are relative to that."""
    return _digest("file", [os.path.realpath(path), hashlib.sha256(data).hexdigest()])


def executes(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of the custom rules and of the actions that act outside, as they are shown."""
    rules = [f"{entry['alias']} ({entry['rule']})" for entry in _rules(manifest.get("rules"))]
    return [*rules, *(f"on {entry['rule']} {entry['action']}" for entry in _actions(manifest.get("actions")))]


def is_trusted(digest: str) -> bool:
    """Return whether a person has named this in this process, or has used it before on this machine."""
    return digest == os.environ.get(TRUSTED) or os.path.exists(_path(digest))


def trust_now(digest: str) -> None:
    """Trust a digest in this process, and in the agent that it becomes."""
    os.environ[TRUSTED] = digest


def remember(digest: str, what: str) -> None:
    """Trust a digest from now on.

    Args:
        what: What it is the digest of, for people who look at the file.
    Raises:
        OSError: It cannot be written.
    """
    folder = os.path.dirname(_path(digest))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    descriptor = os.open(_path(digest), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{what}\n")


def remember_own(digest: str, what: str) -> None:
    """Trust what this process starts, now and when it is resumed; without a home folder, only now."""
    trust_now(digest)
    if not is_empty(digest):
        with suppress(OSError):  # a container may have none: a resumption there names what it leaves out
            remember(digest, what)


def is_empty(digest: str) -> bool:
    """Return whether there is nothing to trust in the run with this digest."""
    return digest == digest_of_run({})


def _path(digest: str) -> str:
    default = os.path.join(os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state"), "leadline")
    return os.path.join(os.path.abspath(os.path.expanduser(os.environ.get(_STATE) or default)), "trusted", digest)


def _digest(kind: str, content: Any) -> str:
    return hashlib.sha256(json.dumps([kind, content], sort_keys=True).encode()).hexdigest()


def _rules(entries: Any) -> list[JsonObject]:
    keys = ("alias", "rule", "parameters", "folder")
    return [_only(entry, keys) for entry in _tables(entries) if is_foreign(str(entry.get("rule", "")))]


def _actions(entries: Any) -> list[JsonObject]:
    keys = ("rule", "action", "statuses", "parameters", "folder")
    return [_only(entry, keys) for entry in _tables(entries) if acts_outside(str(entry.get("action", "")))]


def _tables(entries: Any) -> Iterable[Mapping[str, Any]]:
    found = entries if isinstance(entries, (list, tuple)) else ()
    return (entry for entry in found if isinstance(entry, Mapping))


def _only(entry: Mapping[str, Any], keys: Iterable[str]) -> JsonObject:
    return {key: entry.get(key) for key in keys}
