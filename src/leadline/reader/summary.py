"""What a list says of a run: a few fields of its documents, picked out without making sense of the rest."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

import msgspec

from leadline.reader import liveness
from leadline.records.manifest import Manifest
from leadline.records.names import JOB_ENDED
from leadline.records.overhead import step_share
from leadline.store import layout


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What can be said of a run without reading its data."""

    name: str
    path: str
    status: str
    """The job's; of a run whose agent is gone, what its workers let one say."""
    started_ns: int
    ended_ns: int | None
    preset: str
    command: tuple[str, ...]
    steps: dict[str, int]
    """How many were made, by mode: of the worker that made the most."""
    loss: float | str | None
    """The first that a worker told, as it was last; NaN and infinity by name."""
    cost_ratio: float | None
    """The share of the training's time that watching took; None: no step was seen."""
    rules: tuple[RuleSummary, ...]
    """In the judge's order; none before it wrote of them."""


class RuleSummary(msgspec.Struct, frozen=True, gc=False):
    """How a rule stands."""

    name: str = ""
    status: str = ""
    verdict: str = ""
    findings: int = 0


@dataclass(frozen=True, slots=True)
class RunStart:
    """What of a manifest a list shows."""

    name: str
    started_ns: int
    preset: str
    command: tuple[str, ...]


def summarize(path: str) -> RunSummary | None:
    """What a run's documents say; None: there is no run, or its manifest cannot be read."""
    start = read_start(path)
    if start is None:
        return None
    told = _STATUS.read(f"{path}/{layout.STATUS}") or _Status()
    status = str(told.status)
    workers = _workers(f"{path}/{layout.WORKERS}")
    verdicts = _VERDICTS.read(f"{path}/{layout.RULE_SUMMARY}") or _Verdicts()
    return RunSummary(
        name=start.name,
        path=path,
        status=status if status in JOB_ENDED else liveness.effective_status(path),
        started_ns=start.started_ns,
        ended_ns=told.ended_ns if isinstance(told.ended_ns, int) else None,
        preset=start.preset,
        command=start.command,
        steps=_steps(workers),
        loss=_loss(workers),
        cost_ratio=step_share({"own_ns": _count(each.own_ns), "loop_ns": _count(each.loop_ns)} for each in workers),
        rules=verdicts.rules,
    )


def read_start(path: str) -> RunStart | None:
    """What of a run's manifest a list shows; None: there is no run, or its manifest cannot be read.

    A manifest can be read here where it can be read whole: of the plan, the rules and the actions, which are most of
    it and the same from run to run, each wording is tried once.
    """
    data = _contents(f"{path}/{layout.MANIFEST}")
    if data is None:
        return None
    found = _MANIFEST.decode(data)
    if found is not None and _is_sound(found):
        return _start(found.name, found.started_ns, found.preset, found.command)
    try:
        whole = Manifest.from_dict(json.loads(data))
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError):
        return None
    return _start(whole.name, whole.started_ns, whole.preset, whole.command)


def _start(name: Any, started_ns: Any, preset: Any, command: Iterable[Any]) -> RunStart | None:
    """None: it has no name, or no time, by which a list could be sorted."""
    if not isinstance(name, str) or not isinstance(started_ns, int) or not -_END_OF_TIME < started_ns < _END_OF_TIME:
        return None
    return RunStart(name, started_ns, str(preset), tuple(map(str, command)))


class _Plan(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    items: msgspec.Raw
    host_bytes: Any = None
    device_bytes: Any = None
    disk_bytes: Any = None
    budget: Any = None


class _Manifest(msgspec.Struct):
    name: Any
    uri: Any
    command: list[Any]
    started_ns: Any
    leadline: Any
    plan: _Plan
    rules: msgspec.Raw
    actions: msgspec.Raw
    profile: msgspec.Raw = msgspec.Raw(b"[]")
    workers: msgspec.Raw = msgspec.Raw(b"[]")
    nodes: msgspec.Raw = msgspec.Raw(b"[]")
    preset: Any = "standard"


class _Status(msgspec.Struct):
    status: Any = "Starting"
    ended_ns: Any = None


class _Worker(msgspec.Struct):
    steps: Any = None
    losses: Any = None
    own_ns: Any = None
    loop_ns: Any = None


class _Verdicts(msgspec.Struct):
    rules: tuple[RuleSummary, ...] = ()


T = TypeVar("T")


class _Document(Generic[T]):
    """Reads some fields of a kind of document."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)

    def read(self, path: str) -> T | None:
        """None: it is not there, not whole, or something else."""
        data = _contents(path)
        if data is None:
            return None
        found = self.decode(data)
        if found is not None:
            return found
        try:
            return msgspec.convert(json.loads(data), self._kind)  # some writers' JSON has NaN, or is no UTF-8
        except (ValueError, msgspec.ValidationError, RecursionError):
            return None

    def decode(self, data: bytes) -> T | None:
        """None: it is something else, or of a wording of JSON that only Python's reader takes."""
        try:
            if not data.isascii():
                data.decode()  # text that is skipped is not looked at
            return self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


_MANIFEST: Final = _Document(_Manifest)
_STATUS: Final = _Document(_Status)
_WORKER: Final = _Document(_Worker)
_VERDICTS: Final = _Document(_Verdicts)
_END_OF_TIME: Final = 1 << 63
_CHUNK: Final = 1 << 16
_WORDINGS: Final = 256
_PATIENCE: Final = 5


def _contents(path: str) -> bytes | None:
    """A file's bytes by as few system calls as can be; None: it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would never answer
    except OSError:
        return None
    try:
        data = os.read(descriptor, _CHUNK)
        if len(data) < _CHUNK:
            return data
        chunks = [data]
        while chunks[-1]:
            chunks.append(os.read(descriptor, _CHUNK))
        return b"".join(chunks)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _is_sound(found: _Manifest) -> bool:
    """Whether what was skipped is as it must be for the manifest to be read whole."""
    is_listed = bytes(found.workers)[:1] == bytes(found.nodes)[:1] == b"["
    return is_listed and _can_be_read(*map(bytes, (found.plan.items, found.rules, found.actions, found.profile)))


@lru_cache(_WORDINGS)
def _can_be_read(items: bytes, rules: bytes, actions: bytes, profile: bytes) -> bool:
    texts = {"rules": rules, "actions": actions, "profile": profile}
    bare = {"name": "", "uri": "", "command": (), "started_ns": 0, "leadline": ""}
    try:
        parts = {name: json.loads(text) for name, text in texts.items()}
        Manifest.from_dict({**bare, **parts, "plan": {"items": json.loads(items)}})
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError):
        return False
    return True


def _workers(folder: str) -> list[_Worker]:
    """What each worker says of itself, by their names."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except OSError:
        return []
    found = (_patiently(f"{folder}/{name}") for name in names)
    return [each for each in found if each is not None]


def _patiently(path: str) -> _Worker | None:
    """A worker's document; one that is being rewritten in place this moment is read again."""
    for attempt in range(_PATIENCE):
        if attempt:
            time.sleep(0.001)
        found = _WORKER.read(path)
        if found is not None:
            return found
    return None


def _steps(workers: Iterable[_Worker]) -> dict[str, int]:
    steps: dict[str, int] = {}
    for each in workers:
        for mode, count in each.steps.items() if isinstance(each.steps, dict) else ():
            steps[mode] = max(steps.get(mode, 0), _count(count))
    return steps


def _loss(workers: Iterable[_Worker]) -> float | str | None:
    for each in workers:
        for loss in each.losses.values() if isinstance(each.losses, dict) else ():
            return loss if isinstance(loss, (int, float, str)) else None
    return None


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0
