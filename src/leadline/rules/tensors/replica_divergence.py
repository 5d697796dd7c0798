"""The rule replica_divergence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from leadline.records.names import NEVER_CALLED_WRAPPER, gradient_name
from leadline.rules import Advice, Fired, Needs, NotApplicable, Rule, Severity, TensorNeed, Undecided, Verdict, Window
from leadline.rules.messages import and_more, clear_if_complete, fired
from leadline.rules.selection import select

_REPLICAS: Final = "/replicas"
_EVERY: Final = 10
_GRADIENT_STEPS: Final = 6
_SHARDED: Final = 1.0
_ADVICE: Final = Advice(
    "checking what one rank does alone (loading a checkpoint, clipping, skipping a step), or broadcasting the weights "
    "from rank 0 to see whether it recurs; usually a branch on the rank changes weights or gradients, or a parameter "
    "is not in the wrapped model"
)
_NEVER_CALLED_ADVICE: Final = Advice(
    "calling the wrapped model in train steps (model(x)); usually they call a method of model.module, past the wrapper "
    "that averages the gradients"
)
_NEVER_EQUAL_ADVICE: Final = Advice(
    "broadcasting the weights from rank 0 before the first step (a data-parallel wrapper does), or the same seed on "
    "all ranks while the model is made; usually gradients are averaged by hand over models that began with other "
    "weights"
)


@dataclass(slots=True)
class _Agreement:
    """The agreement of all workers on one parameter, or on its gradient."""

    checksum: float
    """The last checksum that was equal on all workers."""
    has_moved: bool = False
    """Whether they agreed on one value and later on another, so that they are kept in sync."""


@dataclass(slots=True)
class _Workers:
    """What is known of the workers of a run."""

    names: set[str] = field(default_factory=set)
    replicas: dict[tuple[str, str], float] = field(default_factory=dict)
    """What each worker reports of each of its models: the number of replicas, 1 if it is sharded, 0 if not known."""
    agreements: dict[str, _Agreement] = field(default_factory=dict)
    """By parameter."""
    gradients: dict[str, _Agreement] = field(default_factory=dict)
    """By gradient."""
    never_called: set[str] = field(default_factory=set)
    """The workers with a model whose wrapper was never called."""
    has_own_gradients: bool = False
    """Whether the gradients of a parameter have differed between workers."""

    @property
    def are_replicas(self) -> bool:
        """Whether the wrapper of every model keeps its replicas in sync."""
        return bool(self.replicas) and min(self.replicas.values()) > _SHARDED

    @property
    def are_sharded(self) -> bool:
        return set(self.replicas.values()) == {_SHARDED}

    def is_replicated(self, parameter: str) -> bool:
        """Return whether all workers must hold the same values of a parameter."""
        known = self.agreements.get(parameter)
        return self.are_replicas or (known is not None and known.has_moved)

    def were_never_equal(self, parameter: str) -> bool:
        """Return whether workers average the gradients of a parameter whose values have never been equal."""
        reduced = self.gradients.get(gradient_name(parameter))
        is_reduced = reduced is not None and reduced.has_moved and not self.has_own_gradients
        return is_reduced and parameter not in self.agreements


class ReplicaDivergence(Rule, frozen=True, kw_only=True):
    """Fires when replicas of a model are not identical.

    Why it matters:
        Data-parallel training is correct only while all ranks hold the same weights. Once they differ, gradients
        are averaged over different models, and the model that the first rank saves is not the one that was trained.
    How it decides:
        Fires if the checksums of a parameter differ between workers at the same captured step. Workers are replicas
        under ``DistributedDataParallel``; otherwise they count as replicas of a parameter once their checksums were
        equal at two captures between which the parameter changed. Undecided until then: neither trainings with the
        same initial weights nor models without a wrapper are known to be replicas. Sharded parameters (FSDP) have no
        replicas. Fires too if the checksums of a parameter have never been equal, though those of its gradient were at
        two of the first 6 steps, with another value, and those of no other gradient differed: all gradients of
        different weights are equal only where they are averaged. It says so where the wrapper was never called.
    Not a number:
        Checksums are of the bits: NaN equals the same NaN.
    Blind spots:
        Buffers (running averages of batch normalization) are not compared. Local SGD and similar methods differ
        between two synchronizations by design. Of hybrid sharding the replicas are not compared.
    Source:
        Ours; ``torch.nn.parallel.DistributedDataParallel``.
    """

    severity: ClassVar[Severity] = "fatal"
    explains: ClassVar[tuple[str, ...]] = ("loss_spike", "metric_not_improving")

    def needs(self) -> Needs:
        sums = select(("weights", "biases"), (), ("checksum",), modes=("train",))
        replicas = TensorNeed(
            "checks", f"{_REPLICAS}$", statistics=("value",), modes=("train",), every=_EVERY, is_optional=True
        )
        gradients = TensorNeed(
            "gradients", statistics=("checksum",), modes=("train",), end=_GRADIENT_STEPS, is_optional=True
        )
        return Needs((*sums, gradients, replicas, TensorNeed.of_checks(NEVER_CALLED_WRAPPER)))

    def remember(self, memory: Any, window: Window) -> _Workers:
        known: _Workers = memory or _Workers()
        for reading in window.readings("value"):
            if reading.tensor.endswith(NEVER_CALLED_WRAPPER):
                known.never_called.add(reading.worker)
            else:
                known.replicas[reading.worker, reading.tensor] = reading.value
        for tensor, sums in _sums(window).items():
            known.names |= sums.keys()
            _note_agreement(known.agreements, tensor, sums)
        for tensor, sums in _sums(window, are_gradients=True).items():
            _note_agreement(known.gradients, tensor, sums)
            known.has_own_gradients |= len(set(sums.values())) > 1
        return known

    def evaluate(self, window: Window) -> Verdict:
        known: _Workers = window.memory
        checksums = _sums(window)
        if not checksums:
            return Undecided("no parameter had a checksum at this step")
        if known.are_sharded:
            return NotApplicable("the parameters are sharded: no process holds a replica")
        if len(known.names) < 2:
            is_alone = not known.replicas
            return NotApplicable("one process") if is_alone else Undecided("only one of several processes is captured")
        shared = {tensor: sums for tensor, sums in checksums.items() if len(sums) > 1}
        replicated = {tensor: sums for tensor, sums in shared.items() if known.is_replicated(tensor)}
        diverged = [tensor for tensor, sums in replicated.items() if len(set(sums.values())) > 1]
        if diverged:
            return self._fired(diverged, checksums[diverged[0]], window.step, known.never_called)
        never_equal = [tensor for tensor, sums in shared.items() if known.were_never_equal(tensor)]
        if never_equal:
            return self._never_equal(never_equal, checksums[never_equal[0]])
        if not shared:
            return Undecided("no parameter was captured on two processes at this step")
        if not replicated:
            return Undecided("no parameter was equal on all processes at two captures", stage="too few")
        return clear_if_complete(window, "parameters")

    def _fired(self, diverged: list[str], sums: dict[str, float], step: int, never_called: set[str]) -> Fired:
        odd = _odd_one(sums)
        is_uncalled = never_called >= sums.keys()
        cause = (
            "; their gradients are not averaged: DistributedDataParallel was never called, but the module in it"
            if is_uncalled
            else ""
        )
        return fired(
            f"{diverged[0]}{and_more(len(diverged) - 1, 'parameter')}: {len(set(sums.values()))} different versions on "
            f"{len(sums)} workers at step {step}; {odd} differs{cause}",
            *diverged,
            advice=_NEVER_CALLED_ADVICE if is_uncalled else _ADVICE,
            evidence={
                "parameters": len(diverged),
                "workers": len(sums),
                "versions": len(set(sums.values())),
                "odd": odd,
            },
            worker=odd,
        )

    def _never_equal(self, tensors: list[str], sums: dict[str, float]) -> Fired:
        return fired(
            f"{tensors[0]}{and_more(len(tensors) - 1, 'parameter')}: the gradients are equal on {len(sums)} workers, "
            "and the weights have never been",
            *tensors,
            advice=_NEVER_EQUAL_ADVICE,
            evidence={"parameters": len(tensors), "workers": len(sums), "versions": len(set(sums.values()))},
            worker=_odd_one(sums),
        )


def _note_agreement(agreements: dict[str, _Agreement], tensor: str, sums: dict[str, float]) -> None:
    values = set(sums.values())
    if len(sums) > 1 and len(values) == 1:
        (value,) = values
        agreement = agreements.setdefault(tensor, _Agreement(value))
        agreement.has_moved |= agreement.checksum != value
        agreement.checksum = value


def _sums(window: Window, *, are_gradients: bool = False) -> dict[str, dict[str, float]]:
    """Return the checksum of each parameter, or gradient, on each worker."""
    by_tensor: dict[str, dict[str, float]] = {}
    for reading in window.readings("checksum"):
        if reading.value == reading.value and ("gradients" in reading.collections) == are_gradients:
            by_tensor.setdefault(reading.tensor, {})[reading.worker] = reading.value
    return by_tensor


def _odd_one(sums: dict[str, float]) -> str:
    """Return the worker with the rarest version; the last of several, since the others follow the first rank."""
    versions = list(sums.values())
    return min(reversed(sums), key=lambda worker: versions.count(sums[worker]))
