"""A training step on the copy: repeated with other inputs, in another mode, from other weights."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any, Final

import torch

from leadline.frameworks.check.outcome import NotRepeatableError, one_line
from leadline.frameworks.check.samples import REDUCED_ROUNDING, ROUNDING
from leadline.frameworks.torch.capture.autograd_graph import leaf_ids
from leadline.frameworks.torch.check.model_labels import inner, joined, model_labels
from leadline.frameworks.torch.check.model_state import ModelState, modes, set_modes
from leadline.frameworks.torch.check.step_tape import RecordedCall, StepTape, replaced, tensors_in
from leadline.instrumentation.check import TimeLimit

_SEED: Final = 20
_TOLERANCE: Final = 1e-3
"""By which the repeated loss may differ: sums have another order in one thread."""

_MOVED_RANDOM: Final = 0.25
"""The same, for a step that was made on an accelerator in reduced precision, or with dropout."""
_FULL_BYTES: Final = 4

Values = Mapping[int, torch.Tensor]
"""Tensors that take the place of those of the tape, by the identities of these."""


class StepCopy:
    """The step of the tape, in the process of the copy.

    Attributes:
        calls: The calls that the loss depends on, in their order.
        loss: The identity of the loss.
        step_number: The train step.
        labels: What the names of each model's parts begin with: see ``model_labels``.
        parameters: The trained parameters of the optimizer, with their gradients as the optimizer will use them.
        trained: The identities of what this optimizer and the others hold.
        inputs: The tensors that the calls were given and that none of them has returned; see ``leadline.frameworks.
            torch.check.batch``.

    Raises:
        NotRepeatableError: The repeated step has another loss.
    """

    def __init__(
        self,
        tape: StepTape,
        optimizer: Any,
        others: Sequence[Any],
        *,
        step_number: int,
        limit: TimeLimit,
        is_moved: bool = False,
    ) -> None:
        self.tape, self.optimizer, self.others = tape, optimizer, tuple(others)
        tape.separate_labels()
        self.step_number, self._is_moved = step_number, is_moved
        self._limit, self._begun = limit, time.monotonic()
        groups = optimizer.param_groups
        self.parameters = [parameter for group in groups for parameter in group["params"] if parameter.requires_grad]
        self.trained = {id(p) for o in (optimizer, *others) for group in o.param_groups for p in group["params"]}
        self.modules = list(dict.fromkeys(inner(call.function) for call in tape.calls if call.is_model))
        self._produced = {key for call in tape.calls for key in call.produced}
        self.losses = self._repeatable(tape.losses)
        if not self.losses:
            raise NotRepeatableError("the loss is not computed by functions of PyTorch that can be repeated")
        self.loss = self.losses[-1]
        buffers = {id(buffer) for module in self.modules for buffer in module.buffers()}
        self._kept = {key for key in tape.tensors if isinstance(tape.tensors[key], torch.nn.Parameter)} | buffers
        self._kept |= set(map(id, self.parameters))  # which may be plain tensors
        self._parts: dict[int, tuple[list[RecordedCall], dict[int, torch.Tensor]]] = {}
        self.calls, self.inputs = self._part(self.loss)
        self._state = ModelState(self.modules, tape.states)
        self._evaluated: dict[int, torch.Tensor] = {}
        self.labels = model_labels(self.modules)
        self.names = {
            id(parameter): joined(self.labels[module], name)
            for module in self.modules
            for name, parameter in module.named_parameters()
        }
        self.recorded_loss = float(tape.tensors[self.loss].detach())
        self._check_repeatable()

    def _repeatable(self, losses: Sequence[torch.Tensor]) -> list[int]:
        return [id(loss) for loss in losses if loss.grad_fn is not None and id(loss) in self._produced]

    def losses_of_others(self) -> list[tuple[list[int], Any]]:
        """Return the identities of the losses that other optimizers have used in the step, with these optimizers."""
        return [(self._repeatable(losses), optimizer) for losses, optimizer in self.tape.of_others]

    def _find_inputs(self, calls: Sequence[RecordedCall]) -> dict[int, torch.Tensor]:
        """Return the tensors without gradients that models and differentiable functions are given, by identity.

        One that is written again within the step, as labels that are filled again, is computed by its calls. What a
        model is given to differentiate its output by it, as for a gradient penalty, is one of them.
        """
        tensors = self.tape.tensors
        places = {id(call): at for at, call in enumerate(self.tape.calls)}
        written = {key: at for at, call in enumerate(self.tape.calls) for key in call.produced}
        entering: dict[int, int] = {}
        for call in calls:
            if call.is_model or any(tensors[key].requires_grad and not tensors[key].is_leaf for key in call.produced):
                for key in call.consumed:
                    if not tensors[key].requires_grad or (call.is_model and self._is_point(key)):
                        entering.setdefault(key, places[id(call)])
        made_by_models = {key for call in calls if call.is_model for key in call.produced}
        follows = made_by_models | {
            key for call in calls for key in call.produced if set(call.consumed) & made_by_models
        }
        return {
            key: (tensors[key] if key in written else self.tape.inputs[key]).detach().clone()
            for key, at in entering.items()
            if key not in self._kept and key not in follows and tensors[key].numel() and written.get(key, -1) < at
        }

    def _is_point(self, key: int) -> bool:
        """Return whether a tensor is where a model's output is differentiated, and nothing that is trained."""
        tensor = self.tape.tensors[key]
        return tensor.requires_grad and tensor.is_leaf and key not in self.trained

    def _part(self, loss: int) -> tuple[list[RecordedCall], dict[int, torch.Tensor]]:
        """Return the calls that another loss of the step depends on, and their inputs."""
        if loss not in self._parts:
            inputs = self._find_inputs(_slice(self.tape.calls, [loss], frozenset()))
            calls = _slice(self.tape.calls, [loss], frozenset(inputs))
            given = {key for call in calls for key in call.consumed}
            self._parts[loss] = calls, {key: value for key, value in inputs.items() if key in given}
        return self._parts[loss]

    def _check_repeatable(self) -> None:
        try:
            loss = self.run().loss
            repeated = float(loss.detach())
        except Exception as error:
            raise NotRepeatableError(f"the step cannot be repeated on a copy: {one_line(error)}") from error
        own, reached = leaf_ids(self.tape.tensors[self.loss].grad_fn), leaf_ids(loss.grad_fn)
        if own is not None and reached is not None and own & set(map(id, self.parameters)) - reached:
            raise NotRepeatableError("repeated on a copy, the loss depends on fewer weights than it did")
        difference = abs(repeated - self.recorded_loss)
        if not difference <= self._loss_tolerance() * max(abs(self.recorded_loss), 1e-6) and repeated == repeated:
            raise NotRepeatableError(
                f"repeated on a copy, the step has another loss: {repeated:.6g} instead of {self.recorded_loss:.6g}"
            )

    def _loss_tolerance(self) -> float:
        """Return the relative difference of the repeated loss that is none: dropout on a device draws other numbers."""
        if not self._is_moved:
            return _TOLERANCE
        parts = (part for module in self.modules for part in module.modules())
        is_random = any(getattr(part, "p", 0.0) and "Dropout" in type(part).__name__ for part in parts)
        return _MOVED_RANDOM if is_random or self.tolerance > ROUNDING else 10 * _TOLERANCE

    @property
    def tolerance(self) -> float:
        """The share of the predictions' standard deviation below which a difference is rounding."""
        is_reduced = any(call.autocast for call in self.calls) or any(
            parameter.element_size() < _FULL_BYTES for parameter in self.parameters
        )
        return REDUCED_ROUNDING if is_reduced else ROUNDING

    @property
    def seconds_left(self) -> float:
        """The processor time that is left for all probes, which get that part of the clock's that they got so far."""
        used, elapsed = time.process_time(), time.monotonic() - self._begun
        return min(self._limit.processor - used, (self._limit.wall - elapsed) * min(used / max(elapsed, 1e-9), 1.0))

    def named_parts(self) -> Iterator[tuple[str, torch.nn.Module]]:
        """Iterate over the models and the modules in them, by names that tell several models apart."""
        for model in self.modules:
            for path, part in model.named_modules():
                yield joined(self.labels[model], path), part

    def name(self, parameter: torch.Tensor) -> str:
        """Return the name of a parameter in its model."""
        name: str = self.names.get(id(parameter), "a parameter outside of the models")
        return name

    # --- repeating ----------------------------------------------------------------------------------------------

    def run(
        self,
        given: Values | None = None,
        *,
        evaluates: bool = False,
        seed: int | None = None,
        until: int | None = None,
        gradients: bool = True,
        loss: int | None = None,
    ) -> Repeated:
        """Repeat the step, with the random numbers that it has drawn.

        Args:
            given: Tensors in place of inputs, or of what calls have returned.
            evaluates: Whether models are in evaluation mode.
            seed: Draws other random numbers.
            until: The identity of the tensor after which no call is repeated; None: the loss.
            gradients: Whether gradients are recorded where the step recorded them; a step that differentiates needs
                them on its way.
            loss: The identity of another loss of the step.
        """
        calls, inputs = (self.calls, self.inputs) if loss in (None, self.loss) else self._part(loss)
        fixed = {key: value.clone() for key, value in inputs.items()} | dict(given or {})
        fixed |= {key: _point(fixed[key]) for key in inputs if self.tape.tensors[key].requires_grad}
        known: dict[int, torch.Tensor] = {}
        is_differentiated = differentiates(calls)
        with self._state.restored(), modes(self.modules, evaluates=evaluates):
            _seed(_SEED if seed is None else seed)
            for call in calls:
                if all(key in fixed for key in call.produced):
                    continue
                if call.modes and not evaluates:
                    set_modes(call)
                self._repeat(call, fixed, known, seed, gradients=gradients or is_differentiated)
                if until is not None and until in call.produced:
                    break
        made = {**known, **fixed}
        if is_differentiated and not gradients:
            made = {key: value.detach() for key, value in made.items()}
        return Repeated(made, loss or self.loss)

    def _repeat(
        self, call: RecordedCall, fixed: Values, known: dict[int, torch.Tensor], seed: int | None, *, gradients: bool
    ) -> None:
        def take(tensor: torch.Tensor) -> torch.Tensor:
            key = id(tensor)
            if key in fixed:
                return fixed[key]
            if key not in known:
                kept = tensor if key in self._kept else self.tape.inputs.get(key, tensor)
                known[key] = kept if key in self._kept else kept.detach().clone().requires_grad_(kept.requires_grad)
            return known[key]

        args, kwargs = replaced(call.args, take), replaced(call.kwargs, take)
        if self._is_moved and kwargs.get("device") is not None:
            kwargs["device"] = "cpu"
        function = inner(call.function) if call.is_model else call.function
        if seed is None and call.random_state is not None:
            torch.set_rng_state(call.random_state)
        device, dtype = call.autocast or ("", torch.float32)
        cast = torch.autocast("cpu" if self._is_moved else device, dtype) if device else nullcontext()
        with torch.set_grad_enabled(call.has_gradients and gradients), cast:
            output = function(*args, **kwargs)
        before, after = list(tensors_in(call.output)), list(tensors_in(output))
        if len(before) != len(after):
            raise NotRepeatableError(f"{function_name(call)} returns {len(after)} tensors instead of {len(before)}")
        known.update((id(old), new) for old, new in zip(before, after, strict=True))

    @cached_property
    def base(self) -> Repeated:
        """The step as it was, repeated without gradients; what probes change is compared with it."""
        return self.run(gradients=False)

    @cached_property
    def own_gradients(self) -> tuple[torch.Tensor | None, ...]:
        """The gradient of the loss for each of ``parameters``, as they were."""
        return tuple(self.gradients())

    def evaluated(self, key: int) -> torch.Tensor:
        """Return a tensor of the step as it was, in evaluation mode."""
        if key not in self._evaluated:
            self._evaluated[key] = self.run(evaluates=True, until=key, gradients=False)[key]
        return self._evaluated[key]

    def gradients(self, given: Values | None = None, **options: Any) -> list[torch.Tensor | None]:
        """Return the gradient of the loss for each of ``parameters``; None where the loss does not depend on it."""
        loss = self.run(given, **options).loss
        return list(torch.autograd.grad(loss, self.parameters, allow_unused=True)) if loss.requires_grad else []

    @contextmanager
    def other_weights(self) -> Iterator[None]:
        """Restore the parameters and their gradients afterwards."""
        gradients = [parameter.grad for parameter in self.parameters]
        before = [parameter.detach().clone() for parameter in self.parameters]
        try:
            yield
        finally:
            with torch.no_grad():
                for parameter, value, gradient in zip(self.parameters, before, gradients, strict=True):
                    parameter.copy_(value)
                    parameter.grad = gradient

    @contextmanager
    def other_attribute(self, part: torch.nn.Module, name: str, value: Any) -> Iterator[None]:
        """Let every repeated step begin with another value of an attribute, or buffer, of a module."""
        with self._state.replaced(part, name, value):
            yield


class Repeated:
    """A repeated step: every tensor in the place of one of the tape."""

    def __init__(self, tensors: dict[int, torch.Tensor], loss: int) -> None:
        self.tensors, self._loss = tensors, loss

    @property
    def loss(self) -> torch.Tensor:
        """The loss, a scalar."""
        return self.tensors[self._loss].sum()

    def __getitem__(self, key: int) -> torch.Tensor:
        return self.tensors[key]

    def __contains__(self, key: int) -> bool:
        return key in self.tensors


def function_name(call: RecordedCall) -> str:
    """Return the name of a call's function, or the class of its model."""
    return type(inner(call.function)).__name__ if call.is_model else getattr(call.function, "__name__", "a function")


def differentiates(calls: Iterable[RecordedCall]) -> bool:
    """Return whether calls compute gradients, as that of a model's output for a penalty."""
    return any(call.function is torch.autograd.grad for call in calls)


def _slice(calls: Sequence[RecordedCall], roots: Iterable[int], leaves: frozenset[int]) -> list[RecordedCall]:
    """Return the calls on which tensors depend, if the leaves are given."""
    needed, kept = set(roots), []
    for call in reversed(calls):
        made = [key for key in call.produced if key in needed and key not in leaves]
        if made and not _updates_parameter(call):
            kept.append(call)
            needed |= {key for key in call.consumed if key not in leaves}
    return kept[::-1]


def _point(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor by which the repeated step can differentiate."""
    return value if value.requires_grad or not value.is_floating_point() else value.detach().clone().requires_grad_()


def _updates_parameter(call: RecordedCall) -> bool:
    """Whether a call changes a parameter in place, as an average of weights does."""
    return not call.has_gradients and any(
        key in call.consumed and isinstance(tensor, torch.nn.Parameter)
        for key, tensor in zip(call.produced, tensors_in(call.output), strict=False)
    )


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def planned_rate(group: Mapping[str, Any]) -> Any:
    """Return the rate to which a schedule raises that of a parameter group, which has one; at least the current one.

    Source:
        ``torch.optim.lr_scheduler``: ``initial_lr`` of all schedules, ``max_lr`` of ``OneCycleLR``.
    """
    return max(group["lr"], group.get("initial_lr", 0.0), group.get("max_lr", 0.0))
