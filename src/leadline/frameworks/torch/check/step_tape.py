"""The tape of a training step: the calls between its batch and its loss, so that a copy can repeat them."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode
from torch.utils._python_dispatch import _disable_current_modes

from leadline.frameworks.torch.capture.untracked import untracked
from leadline.frameworks.torch.hooks.dynamo import hide_from_dynamo
from leadline.frameworks.torch.hooks.tracing import is_transformed
from leadline.instrumentation.guard import failure_of

_MAX_CALLS: Final = 4000
"""Calls outside of models that a tape keeps; a step with more is not repeated."""
_MAX_COPIED: Final = 1 << 26
"""Elements of an input that are copied: 256 MiB of float32."""
_MAX_VALUES: Final = 1 << 16
"""Elements of an array of NumPy that is compared with its later values."""
_DEPTH: Final = 6
"""Levels of nested containers in which tensors are looked for."""
LABEL_NAMES: Final = frozenset(
    ("label", "labels", "target", "targets", "y", "start_positions", "end_positions", "next_sentence_label")
)
"""Arguments of models that are labels."""
_RANDOM: Final = (
    "rand",
    "dropout",
    "bernoulli",
    "normal",
    "uniform",
    "multinomial",
    "exponential",
    "gumbel",
    "poisson",
)
"""Parts of the names of functions that draw random numbers."""


TRANSFORMED: Final = "the step uses torch.func or a dispatch mode, which a copy would have to use as well"


@dataclass(slots=True, eq=False)
class RecordedCall:
    """A call outside of any model: a function of PyTorch, or a model."""

    function: Callable[..., Any]
    """For a model, the module."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    has_gradients: bool
    """Whether gradients were recorded."""
    autocast: tuple[str, torch.dtype] | None
    """Device and element type of the autocast that it was made in."""
    random_state: torch.Tensor | None = None
    """The state of the CPU's generator before the call of a model, or of a function that draws random numbers."""
    modes: tuple[bool, ...] = ()
    """Whether each part of the model was in training mode."""
    consumed: tuple[int, ...] = ()
    """The identities of the tensors that it was given."""
    produced: tuple[int, ...] = ()
    """The identities of the tensors that it returned or changed."""

    @property
    def is_training(self) -> bool:
        """Whether the model was in training mode."""
        return self.modes[:1] != (False,)

    @property
    def is_model(self) -> bool:
        """Whether it is a call of a module with parameters."""
        return isinstance(self.function, torch.nn.Module)


@dataclass(slots=True)
class PartState:
    """What a forward pass may change of a module beside its parameters."""

    attributes: dict[str, Any]
    buffers: dict[str, torch.Tensor]

    @classmethod
    def of(cls, part: torch.nn.Module) -> PartState:
        """Return the state of a module, without that of its children."""
        left_out = ("_parameters", "_modules", "training")  # the mode is that of each call
        plain = {key: _copied(value) for key, value in part.__dict__.items() if key not in left_out}
        buffers = {name: value.detach().clone() for name, value in part._buffers.items() if value is not None}
        return cls(plain, buffers)


def _copied(value: Any) -> Any:
    is_plain = isinstance(value, torch.Tensor) and not value.requires_grad
    return value.detach().clone() if is_plain and value.numel() <= _MAX_COPIED else value


def plain_values(part: torch.nn.Module) -> dict[str, Any]:
    """Return the numbers of Python, and copies of the arrays of NumPy, that are attributes of a module."""
    return {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in vars(part).items()
        if type(value) is float
        or (isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size <= _MAX_VALUES)
    }


@dataclass(slots=True)
class StepTape:
    """The calls of one training step in one thread.

    Attributes:
        tensors: Every tensor of the tape by its identity.
        inputs: Copies of the tensors that no call has returned, as they were when they were first used.
        losses: The tensors that backward passes began at, in their order; without the factor of a gradient scaler.
        unscaled: The losses before a gradient scaler has scaled them, by the identities of the scaled ones.
        states: The state of each part of a model before its first call, by the part's identity.
        values: The numbers and arrays of each module that the step before has called, as that step has left them, by
            the module's identity: see ``plain_values``.
        last_states: The states that each recurrent layer has returned last in the step before, by the layer's identity.
        random_batches: The tensors of the batches that data loaders have drawn at random within the step.
        of_others: The losses that other optimizers have used in the step, with these optimizers, in their order.
        left_over: The first elements of the gradients that were there when the step began, by the parameter's identity.
    """

    calls: list[RecordedCall] = field(default_factory=list)
    tensors: dict[int, torch.Tensor] = field(default_factory=dict)
    inputs: dict[int, torch.Tensor] = field(default_factory=dict)
    losses: list[torch.Tensor] = field(default_factory=list)
    unscaled: dict[int, torch.Tensor] = field(default_factory=dict)
    left_over: dict[int, torch.Tensor] = field(default_factory=dict)
    states: dict[int, PartState] = field(default_factory=dict)
    values: dict[int, dict[str, Any]] = field(default_factory=dict)
    last_states: dict[int, tuple[torch.Tensor, ...]] = field(default_factory=dict)
    random_batches: list[torch.Tensor] = field(default_factory=list)
    of_others: list[tuple[list[torch.Tensor], Any]] = field(default_factory=list)
    begun_at: int = 0
    """The number of calls before the latest step of another optimizer: they were made for that one."""
    problem: str = ""
    """Why the step cannot be repeated; "": nothing is known."""

    def leave_to(self, optimizer: Any) -> None:
        """Leave the losses and calls so far to another optimizer, which has stepped."""
        self.of_others.append((self.losses, optimizer))
        self.losses = []
        self.begun_at = len(self.calls)

    def separate_labels(self) -> None:
        """Copy labels that a model is given and that are its input, too: ``model(ids, labels=ids)``."""
        for call in self.calls:
            names = [name for name in call.kwargs if name in LABEL_NAMES] if call.is_model else []
            for name in names:
                label = call.kwargs[name]
                if not isinstance(label, torch.Tensor) or call.consumed.count(id(label)) < 2:
                    continue
                copied = self.inputs.get(id(label), label).detach().clone()
                self.tensors[id(copied)] = self.inputs[id(copied)] = copied
                call.kwargs = {**call.kwargs, name: copied}
                call.consumed = tuple(map(id, tensors_in((call.args, call.kwargs))))


@contextmanager
def unseen() -> Iterator[None]:
    """Compute with tensors unseen by autograd and by the modes of the script."""
    with untracked(), _disable_current_modes() if torch._C._len_torch_dispatch_stack() else nullcontext():
        yield


def tensors_in(value: Any, depth: int = _DEPTH) -> Iterator[torch.Tensor]:
    """Iterate over the tensors in nested containers, dataclasses and simple objects, always in the same order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth == 0 or isinstance(value, (str, bytes, int, float, torch.nn.Module)) or value is None:
        return
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item, depth - 1)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            yield from tensors_in(item, depth - 1)
    else:
        for item in _attributes(value).values():
            yield from tensors_in(item, depth - 1)


def replaced(value: Any, take: Callable[[torch.Tensor], torch.Tensor], depth: int = _DEPTH) -> Any:
    """Return a value with each of its tensors replaced; containers without tensors stay the same objects."""
    if isinstance(value, torch.Tensor):
        return take(value)
    if next(tensors_in(value, depth), None) is None:
        return value
    if isinstance(value, Mapping):
        return _like_mapping(value, {key: replaced(item, take, depth - 1) for key, item in value.items()})
    if isinstance(value, (list, tuple, set)):
        items = [replaced(item, take, depth - 1) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    copied = object.__new__(type(value))
    for name, item in _attributes(value).items():
        object.__setattr__(copied, name, replaced(item, take, depth - 1))
    return copied


def _like_mapping(value: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    if type(value) is dict:
        return items
    try:
        return type(value)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def _attributes(value: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name, None) for item in dataclasses.fields(value)}
    return getattr(value, "__dict__", None) or {} if not callable(value) else {}


class TapeMode(TorchFunctionMode):  # type: ignore[misc]
    """Records the calls of PyTorch's functions that the training makes outside of its models."""

    def __init__(self) -> None:
        super().__init__()
        self.tape = StepTape()
        self.paused = 0
        """Above 0 within a model, an optimizer step or a backward pass."""
        self.thread = threading.get_ident()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        if is_transformed():
            self.tape.problem = self.tape.problem or TRANSFORMED
            return func(*args, **kwargs)
        self.attempt(self.keep_inputs, (args, kwargs))
        random_state = torch.get_rng_state() if draws_random_numbers(func) else None
        output = func(*args, **kwargs)
        self.attempt(self.add, func, args, kwargs, output, random_state)
        return output

    def attempt(self, record: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        """Record something within a call of the script; a failure ends the recording, and never reaches the script."""
        if not self.tape.problem and (failure := failure_of(record, *args, **kwargs)):
            self.tape.problem = f"the step could not be recorded: {failure}"

    @contextmanager
    def left_to_script(self) -> Iterator[None]:
        """Record nothing, and leave the stack of modes as the script has made it, as far as this mode is its last."""
        is_last = _get_current_function_mode() is self
        if is_last:
            self.__exit__(None, None, None)
        self.paused += 1
        try:
            yield
        finally:
            self.paused -= 1
            if is_last:
                self.__enter__()

    def keep_inputs(self, value: Any) -> None:
        """Copy the tensors of a call's arguments that no call of the tape has returned."""
        tape = self.tape
        for tensor in tensors_in(value):
            key = id(tensor)
            if key in tape.tensors:
                continue
            tape.tensors[key] = tensor
            if isinstance(tensor, torch.nn.Parameter):
                continue
            with unseen():
                is_copied = tensor.numel() <= _MAX_COPIED
                is_leaf = tensor.requires_grad and tensor.is_leaf
                tape.inputs[key] = tensor.detach().clone().requires_grad_(is_leaf) if is_copied else tensor

    def keep_batch(self, batch: Any, *, is_random: bool) -> None:
        """Keep the tensors of a batch whose samples were drawn at random."""
        if is_random and not self.paused and threading.get_ident() == self.thread:
            self.tape.random_batches += tensors_in(batch)

    def keep_state(self, model: torch.nn.Module) -> None:
        """Keep the state of a model that is called for the first time."""
        states = self.tape.states
        if id(model) not in states:
            with unseen():
                for part in model.modules():
                    states.setdefault(id(part), PartState.of(part))

    def add(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
        random_state: torch.Tensor | None = None,
        *,
        modes: tuple[bool, ...] = (),
    ) -> None:
        """Add a call that has returned."""
        tape = self.tape
        given, made = list(tensors_in((args, kwargs))), list(tensors_in(output))
        if not made and getattr(function, "__name__", "") != "__setitem__":
            return
        if len(tape.calls) >= _MAX_CALLS:
            tape.problem = f"the step makes more than {_MAX_CALLS:,} calls outside of models"
            return
        changed = [given[0]] if not made else []
        for tensor in made:
            tape.tensors.setdefault(id(tensor), tensor)
        tape.calls.append(
            RecordedCall(
                function,
                args,
                kwargs,
                output,
                torch.is_grad_enabled(),
                _autocast(),
                random_state,
                modes,
                tuple(map(id, given)),
                tuple(map(id, (*made, *changed))),
            )
        )


hide_from_dynamo(TapeMode.__torch_function__)


def _autocast() -> tuple[str, torch.dtype] | None:
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            return device, torch.get_autocast_dtype(device)
    return None


def draws_random_numbers(function: Callable[..., Any]) -> bool:
    """Return whether a function of PyTorch may draw random numbers, by its name."""
    name = getattr(function, "__name__", "")
    return any(part in name for part in _RANDOM)


def is_model(module: torch.nn.Module) -> bool:
    """Return whether a module has parameters: one without is repeated like a function."""
    return next(module.parameters(), None) is not None
