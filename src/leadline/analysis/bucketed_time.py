"""Where the time of a run went, told from a digest: exact for runs of a few thousand steps, quick for longer ones."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from leadline.analysis.bottleneck import find_bottleneck
from leadline.analysis.digest import Digest
from leadline.analysis.ranks import Ranks, compare_ranks
from leadline.analysis.steps import PARTS, StepTable
from leadline.analysis.throughput import read_throughput
from leadline.analysis.time_breakdown import TimeBreakdown, device_names
from leadline.analysis.trees import trains_trees
from leadline.reader import liveness
from leadline.reader.run import Run
from leadline.records.names import MODES

MOST_BUCKETS: Final = 2_000
"""Steps of a worker and mode that are told one by one; of more, buckets are."""
_MOST_ROWS: Final = 200_000
_SAMPLES: Final = 1_000
_BOUND_KINDS: Final = ("gpu", "memory")


def time_of(run: Run, digest: Digest, fired: Collection[str] = ()) -> TimeBreakdown:
    """Where the time of a run went.

    Args:
        fired: The rules that found something, by their own names.
    """
    documents = liveness.read_workers(run.path)
    facts = {name: dict(each.get("facts") or {}) for name, each in documents.items()}
    devices = device_names(facts, liveness.read_nodes(run.path), documents)
    steps = read_buckets(digest.steps(points=points_for(len(documents))))
    system = read_samples(digest.system(kind=_BOUND_KINDS, points=_SAMPLES))
    ranks = ranks_of(digest)
    return TimeBreakdown(
        digest.job(),
        steps,
        read_throughput(steps, facts, devices),
        digest.usage(),
        ranks,
        find_bottleneck(steps, system, ranks, fired, is_of_trees=trains_trees(run.path)),
    )


def ranks_of(digest: Digest) -> Ranks | None:
    """The ranks side by side, as ``analysis.ranks.compare_ranks`` tells them; kept until something new comes."""
    known = _compared.get(digest)
    if known is None or known[0] != digest.version:
        table = digest.steps(mode="train", points=points_for(len(digest.workers())))
        known = _compared[digest] = (digest.version, compare_ranks(read_buckets(table)))
    return known[1]


_compared: WeakKeyDictionary[Digest, tuple[int, Ranks | None]] = WeakKeyDictionary()


def points_for(workers: int) -> int:
    """So many buckets a worker, so that those of a thousand workers are still handled in a moment."""
    return max(20, min(MOST_BUCKETS, _MOST_ROWS // max(workers, 1)))


def read_buckets(table: pa.Table) -> StepTable:
    """Buckets as steps that stand for as many as are in them, each as long as their mean.

    Args:
        table: As ``Digest.steps`` gives it.
    """
    workers = tuple(sorted(set(table["worker"].to_pylist())))
    places = {name: place for place, name in enumerate(workers)}
    count = np.maximum(table["count"].to_numpy(), 1)
    phases = (
        np.stack([table[f"{part}_ns"].to_numpy() for part in PARTS], axis=1)
        if table.num_rows
        else (np.zeros((0, len(PARTS))))
    )
    return StepTable(
        workers,
        np.array([places[each] for each in table["worker"].to_pylist()], np.int64),
        np.array([MODES.index(each) for each in table["mode"].to_pylist()], np.int64),
        table["step"].to_numpy(),
        table["start_ns"].to_numpy(),
        table["duration_ns"].to_numpy() // count,
        count,
        phases / count[:, None],
    )


def read_samples(table: pa.Table) -> pa.Table:
    """Buckets of sensors as if each mean were a sample, in the columns of ``Run.system_metrics``.

    Args:
        table: As ``Digest.system`` gives it.
    """
    return table.select(["time_ns", "node", "kind", "device", "metric", "mean"]).rename_columns({"mean": "value"})
