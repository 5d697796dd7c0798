"""The engine on a Ray cluster: shards of runs, and of rules where there are few runs, as its tasks."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from leadline.errors import ConfigurationError, MissingExtraError
from leadline.judge.engines.engine import Judged, Task, judge_one
from leadline.judge.judge import RuleResult
from leadline.judge.rule_pool import WorkerLimits
from leadline.judge.worker_processes import WorkerProcesses
from leadline.records.manifest import RuleSpec
from leadline.records.version import __version__
from leadline.store import layout

_SHARDS_A_PLACE: Final = 4
"""So many for each processor: fewer leave processors idle at the end, more cost a task each."""
_MOST_RUNS: Final = 50
_KNOCK_SECONDS: Final = 10.0
_STORE_BYTES: Final = 100 << 20
"""Of a local cluster's object store: verdicts are small, and Ray's own choice is a third of the memory."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A task, or some of its rules."""

    place: int
    """The task's, among all."""
    count: int
    """Into how many pieces it was cut."""
    task: Task


class RayEngine:
    """Judges as tasks of a Ray cluster, each in the same processes as the local engine has.

    Every node must see runs and rule files under the same paths, and have this version of Leadline.

    Args:
        address: The cluster's (``host:port``, ``auto``, ``ray://host:port``); None: ``$RAY_ADDRESS``, or else a
            cluster on this machine for as long as the judging lasts. A process that is connected already stays so.
        limits: What a rule may take.
    """

    def __init__(self, address: str | None = None, *, limits: WorkerLimits | None = None) -> None:
        self._address = address or os.environ.get("RAY_ADDRESS")
        self._limits = limits or WorkerLimits()

    def judge(self, tasks: Sequence[Task]) -> Generator[Judged, None, None]:
        """Judge runs, and tell of each as it comes."""
        ray = _import_ray()
        is_ours = not ray.is_initialized()
        waiting: dict[Any, list[Piece]] = {}
        try:
            if is_ours:
                _connect(ray, self._address)
            judge_there = ray.remote(judge_shard)
            for shard in cut(tasks, int(ray.cluster_resources().get("CPU", 1))):
                waiting[judge_there.remote(shard, self._limits, __version__)] = shard
            yield from _merged(tasks, _answers(ray, waiting))
        finally:
            for each in waiting:
                ray.cancel(each, force=True)
            if is_ours:
                ray.shutdown()


def cut(tasks: Sequence[Task], places: int) -> list[list[Piece]]:
    """Shards of what is to be judged, for so many processors.

    Where there are fewer runs than processors, the rules of a run are spread too: it is read several times then, but
    at once. A run is never cut by workers: a rule's window shows them all.
    """
    groups = max(1, places // max(1, len(tasks)))
    pieces = [piece for place, task in enumerate(tasks) for piece in _cut_rules(place, task, groups)]
    size = max(1, min(_MOST_RUNS, len(pieces) // max(1, places * _SHARDS_A_PLACE)))
    return [pieces[start : start + size] for start in range(0, len(pieces), size)]


def _cut_rules(place: int, task: Task, groups: int) -> list[Piece]:
    count = max(1, min(groups, len(task.rules)))
    return [Piece(place, count, replace(task, rules=task.rules[each::count])) for each in range(count)]


def judge_shard(shard: Sequence[Piece], limits: WorkerLimits, version: str) -> list[Judged]:
    """Judge a shard on this node; what Ray runs.

    Args:
        version: Of the Leadline that asks: another one may come to other verdicts.
    """
    node = os.uname().nodename
    if version != __version__:
        problem = f"node {node} has leadline {__version__}, not {version}; install the same version on all nodes"
        return [Judged(piece.task.run, problem=problem) for piece in shard]
    return [_judge_on(node, piece.task, limits) for piece in shard]


def _judge_on(node: str, task: Task, limits: WorkerLimits) -> Judged:
    if not layout.is_run(task.run):
        problem = f"node {node} sees no run at {task.run}; Ray needs runs where all nodes see them under one path"
        return Judged(task.run, problem=problem)
    lacking = tuple(_lacking(node, spec, file) for spec in task.rules if (file := _missing_file(spec)))
    judged = judge_one(replace(task, rules=_without(task.rules, lacking)), limits, _seats())
    return replace(judged, rules=(*judged.rules, *lacking))


def _missing_file(spec: RuleSpec) -> str:
    """The rule's file where this node lacks it; else ""."""
    place, _, _ = spec.rule.rpartition(":")
    path = os.path.join(spec.folder, place)
    return path if place.endswith(".py") and not os.path.isfile(path) else ""


def _lacking(node: str, spec: RuleSpec, file: str) -> RuleResult:
    why = f"node {node} lacks the rule file {file}; put it where all nodes see it under one path"
    return RuleResult(spec.alias, spec.rule, spec.parameters, "Error", None, why, 0, ())


def _without(rules: Sequence[RuleSpec], lacking: Sequence[RuleResult]) -> tuple[RuleSpec, ...]:
    names = {each.name for each in lacking}
    return tuple(each for each in rules if each.alias not in names)


@lru_cache(maxsize=1)
def _seats() -> WorkerProcesses:
    """This worker process of Ray's keeps its seats from shard to shard; they end with it."""
    return WorkerProcesses(is_kept=True)


def _answers(ray: Any, waiting: dict[Any, list[Piece]]) -> Iterator[tuple[Piece, Judged]]:
    """What comes of each piece, as it comes; ``waiting`` loses what has come."""
    from ray.exceptions import RayError

    while waiting:
        (ready, *_), _ = ray.wait(list(waiting), num_returns=1)
        shard = waiting.pop(ready)
        try:
            answers = ray.get(ready)
        except RayError as error:
            problem = f"Ray could not judge it: {_last_line(error)}"
            answers = [Judged(piece.task.run, problem=problem) for piece in shard]
        yield from zip(shard, answers, strict=True)


def _merged(tasks: Sequence[Task], answers: Iterator[tuple[Piece, Judged]]) -> Iterator[Judged]:
    """Runs whose pieces have all come, each with its rules in the order of its task."""
    parts: dict[int, list[Judged]] = {}
    for piece, judged in answers:
        known = parts.setdefault(piece.place, [])
        known.append(judged)
        if len(known) == piece.count:
            yield _put_together(tasks[piece.place], parts.pop(piece.place))


def _put_together(task: Task, parts: Sequence[Judged]) -> Judged:
    problem = next((each.problem for each in parts if each.problem), "")
    if problem:
        return Judged(task.run, problem=problem)
    order = {spec.alias: place for place, spec in enumerate(task.rules)}
    rules = sorted((rule for each in parts for rule in each.rules), key=lambda rule: order[rule.name])
    damage = dict.fromkeys(line for each in parts for line in each.damage)
    return Judged(task.run, tuple(rules), tuple(damage))


def _import_ray() -> Any:
    """Ray; it reports to nobody how it is used unless the user says so, and keeps its messages off standard output.

    Raises:
        MissingExtraError: It is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # what is told of a lost worker would stand in the JSON
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("--engine ray needs Ray; install it with: pip install 'leadline[ray]'") from error
    return ray


def _connect(ray: Any, address: str | None) -> None:
    """Connect to a cluster, or start one here; Ray's own logging stays in its files.

    Raises:
        ConfigurationError: None answers there.
    """
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address in (None, "local"):
        ray.init(address="local", include_dashboard=False, object_store_memory=_STORE_BYTES, **quiet)
        return
    assert address is not None
    _knock(address)
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, ImportError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"--ray-address {address}: {_last_line(error)}") from error


def _knock(address: str) -> None:
    """Find out at once whether somebody listens: Ray itself tries for minutes.

    Raises:
        ConfigurationError: Nobody does, or it is no address.
    """
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ConfigurationError(f"--ray-address {address}: must be host:port, ray://host:port, auto or local")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK_SECONDS).close()
    except OSError as error:
        raise ConfigurationError(
            f"--ray-address {address}: no cluster answers there ({error}); ray start --head starts one"
        ) from error


def _last_line(error: BaseException) -> str:
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
