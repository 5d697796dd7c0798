"""Time breakdown of a run from a digest: exact for a few thousand steps, fast for more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.bottleneck import find_bottleneck
from leadline.analysis.digest import Digest
from leadline.analysis.overload import find_overload
from leadline.analysis.ranks import Ranks, compare_ranks
from leadline.analysis.steps import StepTable, read_steps
from leadline.analysis.time_breakdown import TimeBreakdown, device_names, loader_of, read_throughput, rule_states
from leadline.analysis.trees import framework_of
from leadline.reader.run import Run
from leadline.records.names import COMPUTES_LATER, MODES, PARTS
from leadline.store.run_state import read_nodes, read_workers

MAX_BUCKETS: Final = 2_000
"""The number of steps per worker and mode that are analyzed individually; longer series are bucketed."""
_MAX_ROWS: Final = 200_000
_SAMPLES: Final = 1_000
_BOTTLENECK_KINDS: Final = ("gpu", "memory")


def bucketed_time_breakdown(run: Run, digest: Digest, verdicts: Mapping[str, str] | None = None) -> TimeBreakdown:
    """Return the time breakdown of a run.

    Args:
        verdicts: The state of each rule, by rule name; None for those in the run's rule summary.
    """
    documents = read_workers(run.path)
    facts = {name: document.facts for name, document in documents.items()}
    devices = device_names(facts, read_nodes(run.path), documents)
    steps = _steps(run, digest, points_for(len(documents)))
    system = read_samples(digest.system(kind=_BOTTLENECK_KINDS, points=_SAMPLES))
    ranks = ranks_of(digest)
    return TimeBreakdown(
        digest.job(),
        steps,
        read_throughput(steps, facts, devices),
        digest.usage(),
        ranks,
        find_bottleneck(
            steps,
            system,
            ranks,
            rule_states(run.path) if verdicts is None else verdicts,
            framework=framework_of(run.path),
            loader=loader_of(run.path),
            computes_later=any(known.get(COMPUTES_LATER) for known in facts.values()),
        ),
        find_overload(steps),
    )


def _steps(run: Run, digest: Digest, points: int) -> StepTable:
    """Return every step with the times of its thread, or buckets of steps without them if the steps are many."""
    table = digest.steps(points=points)
    are_single = pc.all(pc.equal(pc.subtract(table["end_step"], table["step"]), 1)).as_py()
    if table.num_rows and are_single:
        return read_steps(run.timeline())
    return read_buckets(table)


def ranks_of(digest: Digest) -> Ranks | None:
    """Return the comparison of the ranks, as ``analysis.ranks.compare_ranks``; cached until there is new data."""
    known = _compared.get(digest)
    if known is None or known[0] != digest.version:
        table = digest.steps(mode="train", points=points_for(len(digest.workers())))
        known = _compared[digest] = (digest.version, compare_ranks(read_buckets(table)))
    return known[1]


_compared: WeakKeyDictionary[Digest, tuple[int, Ranks | None]] = WeakKeyDictionary()


def points_for(workers: int) -> int:
    """Return the number of buckets per worker, limited so that a thousand workers are processed quickly."""
    return max(20, min(MAX_BUCKETS, _MAX_ROWS // max(workers, 1)))


def read_buckets(table: pa.Table) -> StepTable:
    """Convert buckets to steps, each of the mean duration and weighted by the number of steps in its bucket.

    Args:
        table: As returned by ``Digest.steps``.
    """
    workers = tuple(sorted(set(table["worker"].to_pylist())))
    indices = {name: index for index, name in enumerate(workers)}
    count = np.maximum(table["count"].to_numpy(), 1)
    phases = (
        np.stack([table[f"{part}_ns"].to_numpy() for part in PARTS], axis=1)
        if table.num_rows
        else (np.zeros((0, len(PARTS))))
    )
    return StepTable(
        workers,
        np.array([indices[worker] for worker in table["worker"].to_pylist()], np.int64),
        np.array([MODES.index(mode) for mode in table["mode"].to_pylist()], np.int64),
        table["step"].to_numpy(),
        table["start_ns"].to_numpy(),
        table["duration_ns"].to_numpy() // count,
        count,
        phases / count[:, None],
        np.full_like(phases, np.nan),
        np.full((len(phases), 2), np.nan),
        np.full(len(phases), -1),
    )


def read_samples(table: pa.Table) -> pa.Table:
    """Convert buckets of sensors to samples with the columns of ``Run.system_metrics``; each mean is one sample.

    Args:
        table: As returned by ``Digest.system``.
    """
    return table.select(["time_ns", "node", "kind", "device", "metric", "mean"]).rename_columns({"mean": "value"})
