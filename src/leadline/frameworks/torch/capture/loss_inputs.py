"""Facts about what loss calls are given, captured at the backward passes of the first train steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.kit.array_verbs import ArrayVerbs
from leadline.frameworks.kit.loss_facts import (
    MAX_CALLS,
    NO_FACTS,
    label_facts,
    probability_facts,
    traced_facts,
    unused_name,
)
from leadline.frameworks.torch.capture.autograd_graph import first_rows, shape_of
from leadline.frameworks.torch.capture.class_labels import class_label_facts
from leadline.frameworks.torch.capture.device_copy import number_of
from leadline.frameworks.torch.capture.forward_row import untracked_in_full_precision
from leadline.frameworks.torch.capture.label_positions import facts_of_given, position_facts
from leadline.frameworks.torch.capture.linear_layers import LinearLayers
from leadline.frameworks.torch.capture.loss_terms import LossTerm, LossTerms
from leadline.frameworks.torch.capture.manual_updates import leaves_of
from leadline.frameworks.torch.capture.policy_gradients import PolicyGradients
from leadline.frameworks.torch.capture.token_facts import token_facts
from leadline.frameworks.torch.naming.loss_calls import LossCalls, LossWay
from leadline.frameworks.torch.naming.model_names import ModuleRegistry
from leadline.records import loss_facts as facts

_SOME_LEAVES: Final = 16
_MAX_VAIN: Final = 8
"""After so many losses of 0 or NaN in a row that have labels all the same, such losses are not looked at any more."""


class LossInputs:
    """Captures facts about loss calls, as named in ``leadline.records.loss_facts``, and pairs of linear layers.

    A backward pass is traced back through the autograd graph, so that calls in compiled, wrapped and checkpointed
    models are seen as far as the graph shows them. Of each place in the script that calls ``backward`` the first
    backward pass of a step is traced.
    """

    def __init__(self, callbacks: StepCallbacks, losses: LossCalls, registry: ModuleRegistry) -> None:
        """
        Args:
            losses: The observed loss calls; they tell what a graph alone does not.
        """
        self.is_active = True
        """Whether backward passes are traced; until a step has no facts, or another training begins."""
        self._callbacks, self._losses = callbacks, losses
        self._registry = registry
        self._layers, self._policies = LinearLayers(registry.outermost), PolicyGradients()
        self._step = -1
        self._sites: dict[object, list[str]] = {}
        """The names of the loss calls below each backward pass."""
        self._traced: set[object] = set()
        self._calls = 0
        self._ways: dict[object, LossWay] = {}
        """How the losses of each place become gradients, in the first step."""
        self._given: list[tuple[str, dict[str, Any]]] = []
        self._without_labels: set[str] = set()
        """The loss calls of the current step of which no label counts."""
        self._vain_looks = 0

    def add_call(self, name: str, known: dict[str, Any]) -> None:
        """Add the facts of a loss call of another library, which the graph of the next backward pass shows in part."""
        self._given = [*self._given, (name, known)][-MAX_CALLS:]

    def after_update(self) -> None:
        """Trace backward passes again if another training has begun."""
        self._without_labels.clear()
        if not self.is_active and self._callbacks.has_loss_facts():
            self.is_active = self._losses.keeps_labels = True
            self._sites.clear()  # a place that both trainings use may begin at another loss

    def before_backward(self, outputs: Sequence[Any], site: object) -> None:
        """Capture the facts of the loss calls that a backward pass starts from.

        Args:
            site: Identifies the place in the script.
        """
        given, self._given = self._given, []
        step = self._callbacks.loss_facts_step(in_later_trainings=True)
        if step is None:
            self.is_active = self._losses.keeps_labels = False
            return
        if step != self._step:
            self._step, self._calls = step, 0
            self._traced.clear()
            if step:
                self._callbacks.record_checks(self._accumulation())
        elif site in self._ways:
            self._ways[site].passes += step == 0
        if site in self._traced or self._calls >= MAX_CALLS:
            return
        self._traced.add(site)
        roots = [output for output in outputs if isinstance(output, torch.Tensor) and output.grad_fn is not None]
        with untracked_in_full_precision():
            if given:
                self._record_given(given, roots)
                return
            for root in roots[: MAX_CALLS - self._calls]:
                self._record(root, site)

    def count_ignored(self, outputs: Sequence[Any], site: object, *, is_suspicious: bool) -> None:
        """Capture the share of the labels that are ignored, behind the steps whose loss calls are looked at as a whole.

        Args:
            site: Identifies the place in the script.
            is_suspicious: Whether the loss is 0 or NaN, as one without labels is; otherwise the step is captured.
        """
        is_vain = is_suspicious and self._vain_looks >= _MAX_VAIN
        if is_vain or not self._callbacks.captures_checks():
            return
        found: dict[str, Any] = {}
        with untracked_in_full_precision():
            for output in outputs:
                if isinstance(output, torch.Tensor) and output.grad_fn is not None:
                    found |= self._ignored(output.grad_fn, site)
        self._callbacks.record_checks(found)
        if is_suspicious:
            has_none = any(name.endswith(facts.IGNORED_SHARE) and share == 1.0 for name, share in found.items())
            self._vain_looks = 0 if has_none else self._vain_looks + 1

    def _ignored(self, root: Any, site: object) -> dict[str, Any]:
        """Return the facts about ignored labels of the loss calls below a node."""
        found: dict[str, Any] = {}
        terms = LossTerms(self._losses.name_of, self._losses.labels_of).find(root)
        for name, term in zip(self._names(site, terms), terms, strict=True):
            numbers = _ignored_facts(term) if name not in self._without_labels else {}
            if numbers.get(facts.IGNORED_SHARE) == 1.0:
                self._without_labels.add(name)  # another backward pass of the step does not take its place
            found |= {f"{name}/{fact}": number for fact, number in numbers.items()}
        return found

    def _names(self, site: object, terms: Sequence[LossTerm]) -> list[str]:
        """Return the names of the loss calls below the backward passes of a place, in their order."""
        names = self._sites.setdefault(site, [])
        for term in terms[len(names) :]:
            taken = {name for names in self._sites.values() for name in names}
            names.append(unused_name(term.kind.name.lower(), taken))
        return names[: len(terms)]

    def _record_given(self, given: Sequence[tuple[str, dict[str, Any]]], roots: Sequence[torch.Tensor]) -> None:
        found: dict[str, Any] = {}
        for at, (name, known) in enumerate(given):
            is_new = all(name != other for other, _ in given[:at])
            found |= {f"{name if is_new else f'{name}_{at}'}/{fact}": number for fact, number in known.items()}
        if self._step == 0 and roots:
            found |= self._layers.find(roots[0].grad_fn)
        self._callbacks.record_checks(found)

    def _accumulation(self) -> dict[str, float]:
        """Return how the losses of the first step became gradients."""
        ways, self._ways = self._ways, {}
        return {
            f"{way.name}/{fact}": float(value)
            for way in ways.values()
            for fact, value in zip(facts.ACCUMULATION, (way.passes, way.is_sum, way.is_scaled), strict=True)
        }

    def _record(self, output: torch.Tensor, site: object) -> None:
        root: Any = output.grad_fn
        if self._step == 0:
            way = self._losses.way(root)
            if way is not None:
                self._ways[site] = way
        terms = LossTerms(self._losses.name_of, self._losses.labels_of).find(root)[: MAX_CALLS - self._calls]
        is_negated = all(term.sign < 0 for term in terms) and self._is_training(output)
        names = self._names(site, terms)
        found: dict[str, Any] = {}
        for name, term in zip(names, terms, strict=True):
            found |= {f"{name}/{fact}": value for fact, value in facts_of(term).items()}
            found[f"{name}/{facts.IS_NEGATED}"] = float(is_negated)
            if len(terms) == 1:  # of several, each may be for another position
                found |= {f"{name}/{fact}": share for fact, share in position_facts(term).items()}
        self._calls += max(len(terms), 1)
        given = self._losses.given
        if not terms:
            found |= facts_of_given(*given) if given is not None else {}
            found = found or dict(NO_FACTS)
        if given is not None and len(terms) <= 1:
            name = names[0] if terms else facts.LossKind.CROSS_ENTROPY.name.lower()
            of_tokens = token_facts(*given, has_cached=self._losses.has_cached)
            found |= {f"{name}/{fact}": number for fact, number in of_tokens.items()}
        found |= self._policies.facts(root, self._losses.calls_without_gradients, is_first=self._step == 0)
        if self._step == 0:
            found |= self._layers.find(root)
        self._callbacks.record_checks(found)

    def _is_training(self, output: torch.Tensor) -> bool:
        """Return whether the model of a loss is in training mode; in an attack on a model its inputs are trained."""
        reached = {id(leaf) for leaf in leaves_of([output], _SOME_LEAVES)}
        models = [model for model in self._registry.outermost() if model.training]
        return any(id(parameter) in reached for model in models for parameter in model.parameters())


def facts_of(term: LossTerm) -> dict[str, Any]:
    """Return the facts of a loss call that are known: numbers, some of them possibly device scalars."""
    trace = term.trace
    found: dict[str, Any] = {
        **traced_facts(term.kind, trace),
        facts.IS_SOFTMAX_OVER_BATCH: float(trace.is_softmax_over_batch),
        facts.IS_BROADCAST: float(term.is_broadcast),
        facts.IS_SWAPPED: float(term.is_swapped),
    }
    if term.has_moving_labels is not None:
        found[facts.HAS_MOVING_LABELS] = float(term.has_moving_labels)
    if term.is_weighted_by_its_mean:
        found[facts.IS_WEIGHTED_BY_ITS_MEAN] = 1.0
    if trace.softmax_size is not None:
        found[facts.SOFTMAX_SIZE] = float(trace.softmax_size)
    shape = shape_of(term.predictions) if term.predictions[0] is not None else None
    if shape is not None:
        found[facts.CLASSES] = float(shape[1] if len(shape) > 1 else 1)
    numbers = _label_numbers(term) | _prediction_numbers(term)
    if term.blanks is not None:
        numbers[facts.BLANK_SHARE] = _VERBS.share(term.blanks)
    found |= _ignored_facts(term)
    if term.likelihood is not None:
        numbers |= class_label_facts(term.likelihood)
    found |= {fact: number for fact, tensor in numbers.items() if (number := number_of(tensor)) is not None}
    return found


def _ignored_facts(term: LossTerm) -> dict[str, Any]:
    """Return the class index that a loss call ignores, and the share of its labels that are this index."""
    if term.ignored is None:
        return {}
    index, are_ignored = term.ignored
    share = number_of(_VERBS.share(are_ignored))
    if share is None:
        return {}
    return {facts.KIND: float(term.kind), facts.IGNORE_INDEX: float(index), facts.IGNORED_SHARE: share}


class TorchVerbs(ArrayVerbs):
    """Operations on tensors of PyTorch."""

    def floats(self, values: Any) -> Any:
        return values if values.dtype == torch.float64 else values.float()

    def doubles(self, values: Any) -> Any:
        return values.double()

    def count(self, values: Any) -> Any:
        return values.numel()


_VERBS: Final = TorchVerbs(torch)


def _label_numbers(term: LossTerm) -> dict[str, torch.Tensor]:
    labels = term.labels
    if labels is None or not term.are_labels_judged or not labels.dim():
        return {}
    has_classes = labels.dim() > 1 and labels.shape[1] > 1
    return label_facts(_VERBS, first_rows(labels), term.kind, term.trace.activation, has_classes=has_classes)


def _prediction_numbers(term: LossTerm) -> dict[str, torch.Tensor]:
    values = term.prediction_values
    if values is None or not values.dim():
        return {}
    return probability_facts(_VERBS, first_rows(values), term.kind, 1 if values.dim() > 1 else -1)
