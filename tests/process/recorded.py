"""Trainings that several tests read: each is run once, and kept until something that could change it has changed.

``recorded`` has the place of ``launching.finish`` where a test only reads what a training has left. Its key is a digest
of the command, its input and its environment, of Leadline's sources, of the scripts of tests, and of what
``scripts/setup`` has installed. Workers that need the same training wait for the one that runs it. A second
``scripts/test`` of a day finds all trainings there; ``rm -r .test-runs`` has them run again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from launching import PATIENCE, SCRIPTS, Ended, command, environment, finish

import leadline

PROJECT = Path(__file__).parents[2]
KEPT = PROJECT / ".test-runs" / "recorded"
_ENDED = "ended.json"


def recorded(
    words: Sequence[str], *, given: str | None = None, patience: float = PATIENCE, **changes: str
) -> tuple[Ended, Path]:
    """Return how a command ended, and the folder in which it ran; nothing in there may be changed.

    Args:
        words: The command; places in it are relative to the folder.
        given: Its standard input.
        changes: Of the environment.
    """
    told = json.dumps([list(words), given, sorted(changes.items()), _installed(words[0])])
    place = KEPT / _sources() / hashlib.sha256(told.encode()).hexdigest()[:16]
    with _locked(place):
        if not (place / _ENDED).exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            ended = finish(list(words), place, env=environment(**changes), given=given, patience=patience)
            place.joinpath(_ENDED).write_text(json.dumps([ended.status, ended.out, ended.err]))
    return Ended(*json.loads((place / _ENDED).read_text()), place / "runs"), place


def recorded_run(options: Sequence[str], *job: str, python: str = sys.executable) -> tuple[Ended, Path]:
    """Return the same of a command under ``leadline run``, as by ``launching.watched``."""
    return recorded([python, *command(options, *job, root=Path())[1:]])


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place.parent / f"{place.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@cache
def _sources() -> str:
    """Return a digest of what every training depends on, and remove what was kept for an earlier one."""
    digest = hashlib.sha256()
    for folder in (Path(leadline.__file__).parent, SCRIPTS, PROJECT / "tests" / "fork_server"):
        for file in sorted(folder.rglob("*.py")):
            digest.update(f"{file.relative_to(folder)}\n".encode() + file.read_bytes())
    found = digest.hexdigest()[:16]
    for other in KEPT.iterdir() if KEPT.is_dir() else ():
        if other.name != found:
            shutil.rmtree(other, ignore_errors=True)
    return found


def _installed(program: str) -> Mapping[str, str]:
    """Return what ``scripts/setup`` has noted of the environment of an interpreter."""
    stamps = sorted(Path(os.path.dirname(os.path.dirname(program))).glob(".stamp-*"))
    return {stamp.name: stamp.read_text() for stamp in stamps}
