"""Run summaries for lists, read from a few fields of the run's documents."""

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
    """Summary of a run that is read without its data."""

    name: str
    path: str
    status: str
    """The job's status; if its agent is gone, the status that its workers' documents imply."""
    started_ns: int
    ended_ns: int | None
    preset: str
    command: tuple[str, ...]
    steps: dict[str, int]
    """The number of steps by mode, from the worker with the most steps."""
    loss: float | str | None
    """The latest value of the first loss of a worker; NaN and infinity by name."""
    cost_ratio: float | None
    """The overhead as a share of the step time; None if there was no step."""
    rules: tuple[RuleSummary, ...]
    """In the order of the judge; empty until it has written its first summary."""


class RuleSummary(msgspec.Struct, frozen=True, gc=False):
    """The state of a rule."""

    name: str = ""
    status: str = ""
    verdict: str = ""
    findings: int = 0


@dataclass(frozen=True, slots=True)
class RunStart:
    """The fields of a manifest that a list shows."""

    name: str
    started_ns: int
    preset: str
    command: tuple[str, ...]


def summarize(path: str) -> RunSummary | None:
    """Summarize a run; None if there is no run or its manifest cannot be read."""
    start = read_start(path)
    if start is None:
        return None
    document = _STATUS.read(f"{path}/{layout.STATUS}") or _Status()
    status = str(document.status)
    workers = _workers(f"{path}/{layout.WORKERS}")
    verdicts = _VERDICTS.read(f"{path}/{layout.RULE_SUMMARY}") or _Verdicts()
    return RunSummary(
        name=start.name,
        path=path,
        status=status if status in JOB_ENDED else liveness.effective_status(path),
        started_ns=start.started_ns,
        ended_ns=document.ended_ns if isinstance(document.ended_ns, int) else None,
        preset=start.preset,
        command=start.command,
        steps=_steps(workers),
        loss=_loss(workers),
        cost_ratio=step_share(
            {"own_ns": _count(worker.own_ns), "loop_ns": _count(worker.loop_ns)} for worker in workers
        ),
        rules=verdicts.rules,
    )


def read_start(path: str) -> RunStart | None:
    """Read the fields of a manifest that a list shows; None if there is no run or its manifest cannot be read.

    A manifest is accepted only if it can be parsed completely. The plan, rules and actions make up most of it and are
    the same in many runs; each distinct text of them is parsed once.
    """
    data = _contents(f"{path}/{layout.MANIFEST}")
    if data is None:
        return None
    manifest = _MANIFEST.decode(data)
    if manifest is not None and _is_valid(manifest):
        return _start(manifest.name, manifest.started_ns, manifest.preset, manifest.command)
    try:
        complete = Manifest.from_dict(json.loads(data))
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError):
        return None
    return _start(complete.name, complete.started_ns, complete.preset, complete.command)


def _start(name: Any, started_ns: Any, preset: Any, command: Iterable[Any]) -> RunStart | None:
    """Return None if the manifest has no name or no valid time to sort by."""
    if not isinstance(name, str) or not isinstance(started_ns, int) or not -_MAX_TIME < started_ns < _MAX_TIME:
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
    """Decoder of some fields of a kind of document."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)

    def read(self, path: str) -> T | None:
        """Read a document; None if it is missing, incomplete or something else."""
        data = _contents(path)
        if data is None:
            return None
        document = self.decode(data)
        if document is not None:
            return document
        try:
            return msgspec.convert(json.loads(data), self._kind)  # JSON with NaN or in another encoding than UTF-8
        except (ValueError, msgspec.ValidationError, RecursionError):
            return None

    def decode(self, data: bytes) -> T | None:
        """Decode a document; None if it is something else, or JSON that only Python's parser accepts."""
        try:
            if not data.isascii():
                data.decode()  # the decoder does not validate skipped text
            return self._decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


_MANIFEST: Final = _Document(_Manifest)
_STATUS: Final = _Document(_Status)
_WORKER: Final = _Document(_Worker)
_VERDICTS: Final = _Document(_Verdicts)
_MAX_TIME: Final = 1 << 63
_CHUNK_BYTES: Final = 1 << 16
_CACHE_SIZE: Final = 256
_ATTEMPTS: Final = 5


def _contents(path: str) -> bytes | None:
    """Read a file with as few system calls as possible; None if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # opening a pipe would block
    except OSError:
        return None
    try:
        data = os.read(descriptor, _CHUNK_BYTES)
        if len(data) < _CHUNK_BYTES:
            return data
        chunks = [data]
        while chunks[-1]:
            chunks.append(os.read(descriptor, _CHUNK_BYTES))
        return b"".join(chunks)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _is_valid(manifest: _Manifest) -> bool:
    """Return whether the skipped fields are valid, as for a manifest that is parsed completely."""
    is_listed = bytes(manifest.workers)[:1] == bytes(manifest.nodes)[:1] == b"["
    return is_listed and _is_parsable(
        *map(bytes, (manifest.plan.items, manifest.rules, manifest.actions, manifest.profile))
    )


@lru_cache(_CACHE_SIZE)
def _is_parsable(items: bytes, rules: bytes, actions: bytes, profile: bytes) -> bool:
    texts = {"rules": rules, "actions": actions, "profile": profile}
    other_fields = {"name": "", "uri": "", "command": (), "started_ns": 0, "leadline": ""}
    try:
        parts = {name: json.loads(text) for name, text in texts.items()}
        Manifest.from_dict({**other_fields, **parts, "plan": {"items": json.loads(items)}})
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError):
        return False
    return True


def _workers(folder: str) -> list[_Worker]:
    """Read the worker documents, ordered by name."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except OSError:
        return []
    documents = (_read_with_retry(f"{folder}/{name}") for name in names)
    return [document for document in documents if document is not None]


def _read_with_retry(path: str) -> _Worker | None:
    """Read a worker document; a document that is being rewritten in place is retried."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(0.001)
        document = _WORKER.read(path)
        if document is not None:
            return document
    return None


def _steps(workers: Iterable[_Worker]) -> dict[str, int]:
    steps: dict[str, int] = {}
    for worker in workers:
        for mode, count in worker.steps.items() if isinstance(worker.steps, dict) else ():
            steps[mode] = max(steps.get(mode, 0), _count(count))
    return steps


def _loss(workers: Iterable[_Worker]) -> float | str | None:
    for worker in workers:
        for loss in worker.losses.values() if isinstance(worker.losses, dict) else ():
            return loss if isinstance(loss, (int, float, str)) else None
    return None


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0
