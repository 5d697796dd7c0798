"""What the tensors of a step are: inputs of models, labels, predictions, and along which axis their samples lie."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from leadline.frameworks.check.positions import MIN_SHIFTED, SHIFTS
from leadline.frameworks.check.samples import IGNORED
from leadline.frameworks.torch.check.model_labels import inner
from leadline.frameworks.torch.check.step_copy import StepCopy, Values
from leadline.frameworks.torch.check.step_tape import LABEL_NAMES, RecordedCall, tensors_in


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that the step was given."""

    key: int
    name: str
    """The argument of the model, or ``labels`` of a loss."""
    value: torch.Tensor
    is_model_input: bool
    axis: int | None
    """The axis of the samples; None: it has none."""
    group: int = 1
    """Elements along that axis for each sample, where samples and positions were flattened into one axis."""

    def rows(self) -> torch.Tensor:
        """Return the elements of each sample, ``(samples, …)``."""
        assert self.axis is not None
        value = self.value.movedim(self.axis, 0)
        return value.reshape(value.shape[0] // self.group, -1) if self.group > 1 else value

    def with_samples(self, chosen: torch.Tensor) -> torch.Tensor:
        """Return the tensor with the samples of these indices, ``(samples,)``."""
        if self.axis is None:
            return self.value
        if self.group > 1:
            rows = self.value.reshape(-1, self.group, *self.value.shape[1:])
            return rows[chosen].reshape(self.value.shape)
        return self.value.index_select(self.axis, chosen)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A tensor that a model has returned, and that the loss depends on."""

    key: int
    value: torch.Tensor
    axis: int
    group: int = 1

    def rows(self, value: torch.Tensor) -> torch.Tensor:
        """Return the elements of each sample of a repeated prediction, ``(samples, elements)``."""
        value = value.detach().movedim(self.axis, 0)
        return value.reshape(value.shape[0] // self.group, -1).to(torch.float64)


@dataclass(frozen=True, slots=True)
class Sequences:
    """Tokens, or values, whose labels are the same ones at a later position."""

    tokens: Input
    labels: Input
    time_axis: int
    shifts: tuple[int, ...]
    """By how many positions the labels are ahead of the given tokens; several where tokens are repeated."""
    is_shifted_by_model: bool
    """Whether the labels enter the model, which may shift them itself."""


class Batch:
    """The batch of a step.

    Attributes:
        inputs: What models are given.
        labels: What only the loss is given.
        size: The number of samples; 0: it is not known.
    """

    def __init__(self, step: StepCopy) -> None:
        self._step = step
        self.model_calls = [call for call in step.calls if call.is_model]
        given = {key: name for call in self.model_calls for key, name in _named_arguments(call).items()}
        receivers = {key: call.function for call in self.model_calls for key in _named_arguments(call)}
        values = step.inputs
        entering = [key for key in values if key in given]
        self._shifted = self._relation(given)
        self.sequence_axis = None if self._shifted is None else self._shifted[2]
        self.size = self._size([values[key] for key in entering], [values[key] for key in values if key not in given])
        found = [self._input(key, given.get(key, "labels"), key in given) for key in values]
        self.inputs = self._disambiguated([item for item in found if self._is_input(item)], receivers)
        self.labels = [item for item in found if not self._is_input(item)]

    def _disambiguated(self, inputs: list[Input], receivers: Mapping[int, Any]) -> list[Input]:
        """Return inputs with the model in the name of those that have the name of another model's input."""
        models = {(item.name, inner(receivers[item.key])) for item in inputs if item.key in receivers}
        counts = Counter(name for name, _ in models)
        return [
            replace(item, name=f"{item.name} of {self._step.labels[inner(receivers[item.key])]}")
            if counts[item.name] > 1
            else item
            for item in inputs
        ]

    def _is_input(self, item: Input) -> bool:
        is_sequence = self._shifted is not None and self._shifted[0] == item.key
        return is_sequence or (item.is_model_input and item.name.lower() not in LABEL_NAMES)

    def _size(self, entering: list[torch.Tensor], others: list[torch.Tensor]) -> int:
        sizes = Counter(value.shape[0] for value in (*entering, *others) if value.ndim and value.shape[0] > 1)
        first = next((value for value in entering if value.ndim), None)
        if first is None:
            return 0
        if self.sequence_axis == 0 and first.ndim > 1:
            return int(first.shape[1])
        size = int(first.shape[0])
        others_agree = {value.shape[0] for value in others if value.ndim == 1}
        if first.ndim > 2 and sizes[size] == 1 and int(first.shape[1]) in others_agree and size not in others_agree:
            return int(first.shape[1])
        return size if size > 1 else 0

    def _input(self, key: int, name: str, is_model_input: bool) -> Input:
        value = self._step.inputs[key]
        axis, group = self._axis(value)
        if group > 1 and not is_model_input and group in Counter(inner(c.function) for c in self.model_calls).values():
            axis, group = None, 1  # of the outputs of several calls, one behind the other
        return Input(key, name, value, is_model_input, axis, group)

    def _axis(self, value: torch.Tensor) -> tuple[int | None, int]:
        size = self.size
        if size < 2 or not value.ndim:
            return None, 1
        if value.shape[0] == size and (self.sequence_axis != 0 or value.ndim == 1):
            return 0, 1
        if value.ndim > 1 and value.shape[1] == size:
            return 1, 1
        if value.shape[0] == size:
            return 0, 1
        if value.shape[0] > size and value.shape[0] % size == 0 and self.sequence_axis != 0:
            return 0, value.shape[0] // size
        return None, 1

    @cached_property
    def predictions(self) -> list[Prediction]:
        """What the last model has returned of each sample and the loss is computed from.

        If it has returned the loss itself, what it has returned beside that.
        """
        consumed = {key for call in self._step.calls for key in call.consumed}
        for call in reversed(self.model_calls):
            made = dict.fromkeys(id(tensor) for tensor in tensors_in(call.output))
            used = [key for key in made if key in consumed]
            for keys in (used, [key for key in made if key not in consumed]):
                if found := [prediction for key in keys if (prediction := self._prediction(key)) is not None]:
                    return found
        return []

    def _prediction(self, key: int) -> Prediction | None:
        value = self._step.tape.tensors[key]
        axis, group = self._axis(value)
        if not value.is_floating_point() or not value.requires_grad or axis is None or value.numel() < 2:
            return None
        return Prediction(key, value, axis, group)

    @property
    def labels_of_loss(self) -> list[Input]:
        """The labels that predictions are compared with; not what enters the models only, such as noise on inputs."""
        needed = {self._step.loss}
        for call in reversed(self._step.calls):
            if not call.is_model and needed & set(call.produced):
                needed.update(call.consumed)
        return [item for item in self.labels if item.is_model_input or item.key in needed]

    @property
    def has_other_batch(self) -> bool:
        """Whether a model is given samples, with labels of their own, that are not those of this batch."""
        inputs, labels = (
            {len(item.value) for item in items if item.axis is None and item.value.ndim and len(item.value) > 1}
            for items in (self.inputs, self.labels)
        )
        return bool(inputs & labels)

    def exchanged(self, chosen: torch.Tensor, *, labels: bool = False) -> Values:
        """Return the inputs of models (and the labels) with the samples of these indices."""
        items = [*self.inputs, *(self.labels if labels else ())]
        return {item.key: item.with_samples(chosen) for item in items if item.axis is not None}

    # --- sequences ----------------------------------------------------------------------------------------------

    def _relation(self, given: dict[int, str]) -> tuple[int, int, int, tuple[int, ...]] | None:
        values = self._step.inputs
        tokens = [key for key in values if key in given and _is_sequence(values[key])]
        for key in sorted(tokens, key=lambda token: given[token].lower() in LABEL_NAMES):
            for other in values:
                if other == key or values[other].numel() > values[key].numel():
                    continue
                for axis in (1, 0):
                    shifts = tuple(shift for shift in SHIFTS if _agrees(values[key], values[other], axis, shift))
                    if shifts:
                        return key, other, axis, shifts
        return None

    @cached_property
    def sequences(self) -> Sequences | None:
        """The sequences whose labels are their own later elements; None: there are none."""
        if self._shifted is None:
            return None
        by_key = {item.key: item for item in (*self.inputs, *self.labels)}
        tokens, labels, axis, shifts = self._shifted
        if tokens not in by_key or labels not in by_key:
            return None
        return Sequences(by_key[tokens], by_key[labels], axis, shifts, by_key[labels].is_model_input)


def _is_sequence(value: torch.Tensor) -> bool:
    return bool(value.ndim >= 2 and min(value.shape[:2]) > 1 and (value.ndim == 2 or value.is_floating_point()))


def _agrees(tokens: torch.Tensor, labels: torch.Tensor, axis: int, shift: int) -> bool:
    """Whether labels are the tokens ``shift`` positions later, as far as they are not ignored."""
    length = tokens.shape[axis]
    if length <= shift + 2 or tokens.dtype != labels.dtype:
        return False
    for labelled in (length, length - 1):
        shape = list(tokens.shape)
        shape[axis] = labelled
        count = 1
        for size in shape:
            count *= size
        if labels.numel() != count:
            continue
        placed = labels.reshape(shape)
        compared = min(labelled, length - shift)
        ahead = tokens.narrow(axis, shift, compared)
        named = placed.narrow(axis, 0, compared)
        is_real = named != IGNORED
        if tokens.is_floating_point() and not shift:
            return False
        differ = ahead[is_real].float().std() if int(is_real.sum()) > 1 else torch.tensor(0.0)
        if float(differ) == 0.0:
            return False
        return bool((ahead == named)[is_real].float().mean() >= MIN_SHIFTED)
    return False


def _named_arguments(call: RecordedCall) -> dict[int, str]:
    """Return the names of a model's arguments by the identities of their tensors."""
    names: dict[int, str] = {}
    try:
        bound: dict[str, Any] = inspect.signature(call.function.forward).bind(*call.args, **call.kwargs).arguments  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        bound = {str(position): value for position, value in enumerate(call.args)} | call.kwargs
    for name, value in bound.items():
        if isinstance(value, dict):
            for key, item in value.items():
                names |= {id(tensor): str(key) for tensor in tensors_in(item)}
        else:
            names |= {id(tensor): name for tensor in tensors_in(value)}
    return names
