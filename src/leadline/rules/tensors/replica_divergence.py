"""The rule replica_divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from leadline.records.names import Severity
from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Fired, Undecided, Verdict
from leadline.rules.messages import and_more, clear_if_complete
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import Window


@dataclass(slots=True)
class _Replicas:
    """The replicas of one parameter on all workers."""

    agreed: float
    """The last checksum that was equal on all workers."""
    have_moved: bool = False
    """Whether they agreed on one value and later on another, so that they are kept in sync."""


class ReplicaDivergence(Rule, frozen=True, kw_only=True):
    """Fires when replicas of a model are no longer identical.

    Why it matters:
        Data-parallel training is correct only while all ranks hold the same weights. Once they differ, gradients
        are averaged over different models, and the model that the first rank saves is not the one that was trained.
    How it decides:
        Fires if the checksums of a parameter differ between workers at the same captured step. Workers count as
        replicas of a parameter once their checksums were equal at two captures between which the parameter changed;
        so neither shards (FSDP, tensor parallel) nor trainings with the same initial weights are compared.
    Not a number:
        Checksums are of the bits: NaN equals the same NaN.
    Blind spots:
        Replicas that differ from the first captured update are never recognized as replicas. Buffers (running
        averages of batch normalization) are not compared. Local SGD and similar methods differ between two
        synchronizations by design.
    Source:
        Ours; ``torch.nn.parallel.DistributedDataParallel``.
    """

    severity: ClassVar[Severity] = "fatal"
    explains: ClassVar[tuple[str, ...]] = ("loss_spike", "metric_not_improving")

    def needs(self) -> Needs:
        kinds = ("weights", "biases")
        return Needs(tuple(TensorNeed(kind, statistics=("checksum",), modes=("train",)) for kind in kinds))

    def remember(self, memory: Any, window: Window) -> dict[str, _Replicas]:
        known: dict[str, _Replicas] = memory or {}
        for tensor, sums in _sums(window).items():
            values = set(sums.values())
            if len(sums) < 2 or len(values) > 1:
                continue
            (value,) = values
            replicas = known.setdefault(tensor, _Replicas(value))
            replicas.have_moved |= replicas.agreed != value
            replicas.agreed = value
        return known

    def evaluate(self, window: Window) -> Verdict:
        checksums = _sums(window)
        diverged = [
            tensor
            for tensor, sums in checksums.items()
            if len(set(sums.values())) > 1 and tensor in window.memory and window.memory[tensor].have_moved
        ]
        if not diverged:
            if not any(value == value for sums in checksums.values() for value in sums.values()):
                return Undecided("no parameter had a checksum at this step")
            return clear_if_complete(window, "parameters")
        sums = checksums[diverged[0]]
        odd = _odd_one(sums)
        return Fired(
            f"{diverged[0]}{and_more(len(diverged) - 1, 'parameter')}: {len(set(sums.values()))} different versions on "
            f"{len(sums)} workers at step {window.step}; {odd} differs",
            tensors=tuple(diverged),
            evidence={
                "parameters": len(diverged),
                "workers": len(sums),
                "versions": len(set(sums.values())),
                "odd": odd,
            },
            suggestion="checking what one rank does alone (loading a checkpoint, clipping, skipping a step), or "
            "broadcasting the weights from rank 0 to see whether it recurs; usually a branch on the rank changes "
            "weights or gradients, or a parameter is not in the wrapped model",
            worker=odd,
        )


def _sums(window: Window) -> dict[str, dict[str, float]]:
    """Return the checksum of each tensor on each worker."""
    by_tensor: dict[str, dict[str, float]] = {}
    for reading in window.readings("checksum"):
        if reading.value == reading.value:
            by_tensor.setdefault(reading.tensor, {})[reading.worker] = reading.value
    return by_tensor


def _odd_one(sums: dict[str, float]) -> str:
    """Return the worker with the rarest version; the last of several, since the others follow the first rank."""
    versions = list(sums.values())
    return min(reversed(sums), key=lambda worker: versions.count(sums[worker]))
