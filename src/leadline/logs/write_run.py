"""A log as a run, which every view shows and every rule can judge."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from typing import Final

from leadline.errors import RunExistsError
from leadline.logs.training_log import TrainingLog
from leadline.records.documents import RunStatus, Transition, WorkerDocument
from leadline.records.manifest import Manifest, RuleSpec
from leadline.records.metric_names import LOGGED, is_loss, kind_of, words_of
from leadline.records.metric_roles import GRADIENT_NORM, KNOWN, role_collection
from leadline.records.names import OF_LOG
from leadline.records.plan import CapturePlan
from leadline.records.series import SeriesLayout, TensorInfo
from leadline.records.version import __version__
from leadline.store import layout
from leadline.store.documents import make_folder, write_document
from leadline.store.segments import SegmentFolder
from leadline.store.stream_writer import StreamWriter

WORKER: Final = "log"
_COMPETING: Final = frozenset(
    (
        *("reward", "rewards", "return", "returns", "episode", "episodes", "policy", "actor", "critic", "value", "q"),
        *("advantage", "kl", "td", "energy", "beta"),
        *("discriminator", "generator", "disc", "dis", "gen", "d", "g", "adv", "fake", "real"),
    )
)
"""Words in the names of what is logged where a loss may rise for good."""
_BATCH_ROWS: Final = 64
_SEGMENT_BATCHES: Final = 256


def write_run(log: TrainingLog, path: str, *, source: str, rules: Sequence[RuleSpec]) -> None:
    """Write a log as a run that has ended; it appears when it is complete.

    Args:
        source: Where the log is, for the run's command.
    Raises:
        RunExistsError: There is something at the path.
        OSError: It cannot be written.
    """
    if os.path.exists(path):
        raise RunExistsError(f"{path} exists; choose another name, or delete it first")
    make_folder(os.path.dirname(path))
    partial = f"{path}.{os.getpid()}.part"
    try:
        for name in ("", *layout.FOLDERS):
            make_folder(os.path.join(partial, name))
        times = _times(log, source)
        _write_series(log, partial, times)
        _write_documents(log, partial, path, times, source, rules)
        os.rename(partial, path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def collections_of(name: str, *, is_supervised: bool) -> tuple[str, ...]:
    """Return the collections of a logged number: a loss is one of the losses, anything else one of the metrics.

    Whether a loss is that of validation data, its name tells (``records.loss_roles``).
    """
    if kind_of(name.replace("/", "_")) == "metric" and is_loss(name):
        return ("losses", "scalars", LOGGED) if is_supervised else ("losses", "scalars")
    role = KNOWN.get(name)
    if role is None:
        return ("metrics",)
    norms = ("gradient_norms",) if role == GRADIENT_NORM else ()
    return ("metrics", *norms, role_collection(role))


def is_supervised(names: Iterable[str]) -> bool:
    """Return whether no name tells of a training whose loss may rise for good: against an adversary, for a reward."""
    return not any(word in _COMPETING for name in names for word in words_of(name))


def _times(log: TrainingLog, source: str) -> list[int]:
    """Return the times of the rows, which never fall; without times in the log all are that of its file, or now."""
    last = next((row.time_ns for row in log.rows if row.time_ns), None)
    if last is None:
        last = os.stat(source).st_mtime_ns if os.path.exists(source) else time.time_ns()
    times = []
    for row in log.rows:
        last = max(last, row.time_ns or 0)
        times.append(last)
    return times


def _write_series(log: TrainingLog, folder: str, times: Sequence[int]) -> None:
    """Write the numbers of each step as one row; of one that is logged twice at a step, the last stays."""
    merged: dict[int, tuple[int, dict[str, float]]] = {}
    for row, at_ns in zip(log.rows, times, strict=True):
        merged.setdefault(row.step or 0, (at_ns, {}))[1].update(row.values)
    series = StreamWriter(layout.SERIES, SegmentFolder(folder, layout.SERIES, WORKER), _BATCH_ROWS, _SEGMENT_BATCHES)
    names = log.names
    collections = {name: collections_of(name, is_supervised=is_supervised(names)) for name in names}
    for step, (at_ns, values) in sorted(merged.items()):
        infos = tuple(TensorInfo(name, collections[name], ()) for name in values)
        columns = tuple((index, "value") for index in range(len(infos)))
        entry = {"step": step, "mode": "train", "mode_step": step, "time_ns": at_ns, "values": list(values.values())}
        series.add(SeriesLayout(infos, columns), entry)
    series.flush()


def _write_documents(
    log: TrainingLog, folder: str, path: str, times: Sequence[int], source: str, rules: Sequence[RuleSpec]
) -> None:
    steps = [row.step or 0 for row in log.rows]
    last, is_counted_from_one = max(steps), min(steps) > 0
    started_ns, ended_ns = times[0], times[-1]
    worker = WorkerDocument(
        worker=WORKER,
        started_ns=started_ns,
        framework=OF_LOG,
        steps={"train": last if is_counted_from_one else last + 1},
        step=last,
        time_ns=ended_ns,
        hyperparameters=log.hyperparameters,
        state="ended",
        ended_ns=ended_ns,
        rows=len(log.rows),
        planned_steps=log.planned_steps,
    )
    write_document(os.path.join(folder, layout.worker_document(WORKER)), worker.fields())
    status = RunStatus(
        "Completed", (Transition("InProgress", started_ns), Transition("Completed", ended_ns)), ended_ns=ended_ns
    )
    write_document(os.path.join(folder, layout.STATUS), status.fields())
    manifest = Manifest(
        name=os.path.basename(path),
        uri=path,
        command=("leadline", "diagnose", source),
        started_ns=started_ns,
        leadline=__version__,
        preset="none",
        plan=CapturePlan(),
        rules=tuple(rules),
    )
    write_document(os.path.join(folder, layout.MANIFEST), manifest.to_dict())
