"""The engine on a Ray cluster, with shards of runs, or of rules if there are few runs, as its tasks."""

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
from leadline.judge.rule_entry import RuleResult
from leadline.judge.rule_pool import WorkerLimits, WorkerProcesses
from leadline.records.manifest import RuleSpec
from leadline.records.version import __version__
from leadline.store import layout

_SHARDS_PER_CPU: Final = 4
"""The number of shards per processor: with fewer, processors idle at the end; more have a higher overhead."""
_MAX_RUNS: Final = 50
_CONNECT_SECONDS: Final = 10.0
_STORE_BYTES: Final = 100 << 20
"""The object store of a local cluster: verdicts are small, and Ray's default is a third of the memory."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A task, or some of its rules."""

    place: int
    """The index of the task."""
    count: int
    """The number of pieces of the task."""
    task: Task


class RayEngine:
    """Judges as tasks of a Ray cluster, each in the same kind of processes as the local engine.

    Every node must have the runs and rule files under the same paths, and this version of Leadline.

    Args:
        address: The cluster (``host:port``, ``auto``, ``ray://host:port``); None: ``$RAY_ADDRESS``, or else a
            temporary cluster on this machine. A process that is connected already stays connected.
        limits: The limits of time and memory for a rule.
    """

    def __init__(self, address: str | None = None, *, limits: WorkerLimits | None = None) -> None:
        self._address = address or os.environ.get("RAY_ADDRESS")
        self._limits = limits or WorkerLimits()

    def judge(self, tasks: Sequence[Task]) -> Generator[Judged, None, None]:
        """Judge runs, and yield each result as it arrives."""
        ray = _import_ray()
        is_ours = not ray.is_initialized()
        waiting: dict[Any, list[Piece]] = {}
        try:
            if is_ours:
                _connect(ray, self._address)
            remote_judge = ray.remote(judge_shard)
            for shard in cut(tasks, int(ray.cluster_resources().get("CPU", 1))):
                waiting[remote_judge.remote(shard, self._limits, __version__)] = shard
            yield from _merged(tasks, _answers(ray, waiting))
        finally:
            for task in waiting:
                ray.cancel(task, force=True)
            if is_ours:
                ray.shutdown()


def cut(tasks: Sequence[Task], places: int) -> list[list[Piece]]:
    """Divide tasks into shards for a number of processors.

    If there are fewer runs than processors, the rules of a run are distributed as well: it is read several times
    in parallel. A run is never divided by workers: the window of a rule contains all of them.
    """
    groups = max(1, places // max(1, len(tasks)))
    pieces = [piece for place, task in enumerate(tasks) for piece in _cut_rules(place, task, groups)]
    size = max(1, min(_MAX_RUNS, len(pieces) // max(1, places * _SHARDS_PER_CPU)))
    return [pieces[start : start + size] for start in range(0, len(pieces), size)]


def _cut_rules(place: int, task: Task, groups: int) -> list[Piece]:
    count = max(1, min(groups, len(task.rules)))
    return [Piece(place, count, replace(task, rules=task.rules[start::count])) for start in range(count)]


def judge_shard(shard: Sequence[Piece], limits: WorkerLimits, version: str) -> list[Judged]:
    """Judge a shard on this node; called by Ray.

    Args:
        version: The version of Leadline on the calling node: another version may have other verdicts.
    """
    node = os.uname().nodename
    if version != __version__:
        problem = f"node {node} has leadline {__version__}, not {version}; install the same version on all nodes"
        return [Judged(piece.task.run, problem=problem) for piece in shard]
    return [_judge_on(node, piece.task, limits) for piece in shard]


def _judge_on(node: str, task: Task, limits: WorkerLimits) -> Judged:
    if not layout.is_run(task.run):
        problem = f"node {node} has no run at {task.run}; with Ray, all nodes need the runs under the same path"
        return Judged(task.run, problem=problem)
    failed = tuple(_missing_file_result(node, spec, file) for spec in task.rules if (file := _missing_file(spec)))
    judged = judge_one(replace(task, rules=_without(task.rules, failed)), limits, _worker_processes())
    return replace(judged, rules=(*judged.rules, *failed))


def _missing_file(spec: RuleSpec) -> str:
    """Return the file of a rule if it does not exist on this node; otherwise empty."""
    module, _, _ = spec.rule.rpartition(":")
    path = os.path.join(spec.folder, module)
    return path if module.endswith(".py") and not os.path.isfile(path) else ""


def _missing_file_result(node: str, spec: RuleSpec, file: str) -> RuleResult:
    why = f"node {node} does not have the rule file {file}; all nodes need it under the same path"
    return RuleResult(spec.alias, spec.rule, spec.parameters, "Error", None, why, 0, ())


def _without(rules: Sequence[RuleSpec], failed: Sequence[RuleResult]) -> tuple[RuleSpec, ...]:
    names = {result.name for result in failed}
    return tuple(spec for spec in rules if spec.alias not in names)


@lru_cache(maxsize=1)
def _worker_processes() -> WorkerProcesses:
    """Return the process pool of this Ray worker, which is reused from shard to shard and ends with the worker."""
    return WorkerProcesses(is_kept=True)


def _answers(ray: Any, waiting: dict[Any, list[Piece]]) -> Iterator[tuple[Piece, Judged]]:
    """Yield the result of each piece as it arrives, and remove it from ``waiting``."""
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
    """Yield the runs whose pieces have all arrived, each with its rules in the order of its task."""
    parts: dict[int, list[Judged]] = {}
    for piece, judged in answers:
        known = parts.setdefault(piece.place, [])
        known.append(judged)
        if len(known) == piece.count:
            yield _merge(tasks[piece.place], parts.pop(piece.place))


def _merge(task: Task, parts: Sequence[Judged]) -> Judged:
    problem = next((part.problem for part in parts if part.problem), "")
    if problem:
        return Judged(task.run, problem=problem)
    order = {spec.alias: index for index, spec in enumerate(task.rules)}
    rules = sorted((rule for part in parts for rule in part.rules), key=lambda rule: order[rule.name])
    damage = dict.fromkeys(line for part in parts for line in part.damage)
    return Judged(task.run, tuple(rules), tuple(damage))


def _import_ray() -> Any:
    """Import Ray, with usage statistics disabled by default and without messages on standard output.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # messages about a lost worker would end up in the JSON
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("--engine ray needs Ray; install it with: pip install 'leadline[ray]'") from error
    return ray


def _connect(ray: Any, address: str | None) -> None:
    """Connect to a cluster, or start a local one; Ray's own logging stays in its files.

    Raises:
        ConfigurationError: The cluster does not answer.
    """
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address in (None, "local"):
        ray.init(address="local", include_dashboard=False, object_store_memory=_STORE_BYTES, **quiet)
        return
    assert address is not None
    _check_address(address)
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, ImportError, RuntimeError, ValueError) as error:
        raise ConfigurationError(f"--ray-address {address}: {_last_line(error)}") from error


def _check_address(address: str) -> None:
    """Check whether the cluster accepts connections: Ray itself tries for minutes.

    Raises:
        ConfigurationError: It does not, or the address is invalid.
    """
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ConfigurationError(f"--ray-address {address}: must be host:port, ray://host:port, auto or local")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigurationError(
            f"--ray-address {address}: no cluster answers ({error}); start one with: ray start --head"
        ) from error


def _last_line(error: BaseException) -> str:
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
