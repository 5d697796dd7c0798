"""The rule replica_divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from leadline.records.needs import Needs, TensorNeed
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule
from leadline.rules.selection import and_more

if TYPE_CHECKING:
    from leadline.reader.window import Window


@dataclass(slots=True)
class _Replicas:
    """What is known of one parameter on all workers."""

    agreed: float
    """The checksum on which they last agreed."""
    have_moved: bool = False
    """Whether they agreed on one value, and later on another: then somebody keeps them alike."""


class ReplicaDivergence(Rule, frozen=True, kw_only=True):
    """Fires when replicas of a model are no longer the same.

    Why it matters:
        Data-parallel training is right only while all ranks hold the same weights. Once they differ, gradients are
        averaged between different models, and what the first rank saves is none that was trained.
    How it decides:
        The checksums of a parameter differ between workers at one captured step. Workers count as replicas of a
        parameter once their checksums were equal at two captures and the parameter had changed from one to the other;
        so neither shards (FSDP, tensor parallel) nor trainings that merely start alike are compared.
    Not a number:
        Checksums are of the bits: NaN equals the same NaN.
    Blind spots:
        Replicas that differ from the first captured update on are never known to be replicas. Buffers (running averages
        of batch normalization) are not compared. Local SGD and its kin differ between two synchronizations by design.
    Args:
    Source:
        Ours; ``torch.nn.parallel.DistributedDataParallel``.
    """

    explains: ClassVar[tuple[str, ...]] = ("loss_spike", "metric_not_improving")

    def needs(self) -> Needs:
        kinds = ("weights", "biases")
        return Needs(tuple(TensorNeed(each, statistics=("checksum",), modes=("train",)) for each in kinds))

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
        found = _sums(window)
        apart = [
            tensor
            for tensor, sums in found.items()
            if len(set(sums.values())) > 1 and tensor in window.memory and window.memory[tensor].have_moved
        ]
        if not apart:
            if not any(value == value for sums in found.values() for value in sums.values()):
                return Undecided("no parameter had a checksum at this step")
            return Undecided("part of the parameters at this step was lost") if window.is_thinned else Clear()
        sums = found[apart[0]]
        odd = _odd_one(sums)
        return Fired(
            f"{apart[0]}{and_more(len(apart) - 1, 'parameter')}: {len(set(sums.values()))} different versions on "
            f"{len(sums)} workers at step {window.step}; {odd} stands apart",
            tensors=tuple(apart),
            evidence={"parameters": len(apart), "workers": len(sums), "versions": len(set(sums.values())), "odd": odd},
            suggestion="a look at what one rank does alone (loading a checkpoint, clipping, skipping a step), or "
            "broadcasting the weights from rank 0 to see whether it comes back; usually a branch on the rank changes "
            "weights or gradients, or a parameter is not in the model that is wrapped",
            worker=odd,
        )


def _sums(window: Window) -> dict[str, dict[str, float]]:
    """By tensor the checksum on each worker."""
    found: dict[str, dict[str, float]] = {}
    for each in window.readings("checksum"):
        if each.value == each.value:
            found.setdefault(each.tensor, {})[each.worker] = each.value
    return found


def _odd_one(sums: dict[str, float]) -> str:
    """The worker whose version the fewest have; the last of them, since the first rank is what others follow."""
    versions = list(sums.values())
    return min(reversed(sums), key=lambda worker: versions.count(sums[worker]))
