"""The probe of models whose saved state is not all that they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import torch

from leadline.frameworks.check.outcome import Tested, failed, not_applicable, one_line, passed
from leadline.frameworks.torch.check.held_copies import live_copy
from leadline.frameworks.torch.check.lost_averages import lost_average
from leadline.frameworks.torch.check.model_labels import joined
from leadline.frameworks.torch.check.outcome import CheckedStep
from leadline.frameworks.torch.check.step_copy import StepCopy

_INNER: Final = frozenset(("_parameters", "_buffers", "_modules"))
_LEAST_RANDOM: Final = 32
_DISTINCT: Final = 0.9
_ALIKE: Final = 0.4
"""A correlation of neighbours above which a tensor was not drawn at random."""
_ADVICE: Final = (
    "register it: nn.ModuleList or nn.ModuleDict for modules, nn.Parameter for what is trained, register_buffer for "
    "what is not"
)


def incomplete_state(subject: CheckedStep) -> Tested:
    """Look for what the predictions depend on and ``state_dict`` does not have."""
    step = subject.step
    if not step.modules:
        return not_applicable("the step calls no module with parameters")
    hidden = _hidden_modules(step)
    if hidden:
        return failed(
            f"{hidden[0]} is a module in a list or dictionary of Python: its parameters are not in state_dict, and "
            "model.to and model.train do not reach it",
            _ADVICE,
            names=hidden[:16],
        )
    outside = [
        name
        for name, value in _plain_tensors(step)
        if (value.requires_grad and value.is_leaf) or id(value) in {id(parameter) for parameter in step.parameters}
    ]
    if outside:
        return failed(
            f"{outside[0]} is trained, and not in state_dict: a saved model loses it", _ADVICE, names=outside[:16]
        )
    changed = _changed_in_forward(subject)
    if changed:
        return failed(
            f"a forward pass in training mode changes {changed[0]}, which is not in state_dict: a saved model loses it",
            _ADVICE,
            names=changed[:16],
        )
    moved = _changed_by_script(subject)
    if moved:
        return failed(
            f"the script changes {moved[0]} from step to step, which is not in state_dict: a loaded model predicts "
            "with another one",
            _ADVICE,
            names=moved[:16],
        )
    if (copied := live_copy(step) or lost_average(step)) is not None:
        return copied
    random = _random_tensors(subject)
    if random:
        return failed(
            f"{random[0]} looks random and is not in state_dict: a loaded model predicts with another one",
            "register it with register_buffer, persistent",
            names=random[:16],
        )
    for module in step.modules:
        try:
            module.load_state_dict(module.state_dict())
        except (RuntimeError, KeyError, TypeError, AttributeError) as error:
            return failed(
                f"{type(module).__name__} cannot load its own state_dict: {one_line(error)}",
                "make the names that state_dict returns those that load_state_dict expects",
            )
    try:
        step.optimizer.load_state_dict(step.optimizer.state_dict())
    except (RuntimeError, KeyError, ValueError, TypeError) as error:
        return failed(
            f"{type(step.optimizer).__name__} cannot load its own state_dict: {one_line(error)}",
            "save and load the optimizer with the same groups of parameters",
        )
    count = sum(len(module.state_dict()) for module in step.modules)
    return passed(f"the model loads its own state of {count:,} tensors, and nothing that it changes is outside of it")


def _own_attributes(part: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    for name, value in vars(part).items():
        if name not in _INNER and not name.startswith(
            ("_forward", "_backward", "_state_dict", "_load_state", "_is_full")
        ):
            yield name, value


def _nested(value: Any, depth: int = 3) -> Iterator[tuple[str, Any]]:
    if depth == 0:
        return
    if isinstance(value, Mapping):
        items: Any = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return
    for key, item in items:
        yield f"[{key!r}]", item
        for rest, inner in _nested(item, depth - 1):
            yield f"[{key!r}]{rest}", inner


def _hidden_modules(step: StepCopy) -> list[str]:
    known = {id(part) for _, part in step.named_parts()}
    found = []
    for path, part in step.named_parts():
        for name, value in _own_attributes(part):
            for rest, item in _nested(value):
                if isinstance(item, torch.nn.Module) and id(item) not in known and _has_parameters(item):
                    found.append(joined(path, name) + rest)
    return found


def _has_parameters(module: torch.nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _plain_tensors(step: StepCopy) -> Iterator[tuple[str, torch.Tensor]]:
    known = {id(tensor) for module in step.modules for tensor in (*module.parameters(), *module.buffers())}
    for path, part in step.named_parts():
        for name, value in _own_attributes(part):
            for rest, item in (("", value), *_nested(value)):
                if isinstance(item, torch.Tensor) and id(item) not in known:
                    yield joined(path, name) + rest, item


def _random_tensors(subject: CheckedStep) -> list[str]:
    """Return the tensors outside of state_dict that were drawn at random, and that predictions depend on."""
    step = subject.step
    saved = _saved(step)
    found = [
        (part, name, joined(path, name))
        for path, part in step.named_parts()
        for name, value in (*_own_attributes(part), *part._buffers.items())
        if isinstance(value, torch.Tensor) and id(value) not in saved and _is_random(value)
    ]
    return [label for part, name, label in found if _matters(subject, part, name)]


def _saved(step: StepCopy) -> set[int]:
    """Return the identities of the tensors that are in a state_dict."""
    return {id(value) for module in step.modules for value in module.state_dict(keep_vars=True).values()}


def _is_random(value: torch.Tensor) -> bool:
    """Whether elements have nothing to do with their neighbours, as those of tables, masks and waves have."""
    if not value.is_floating_point() or value.numel() < _LEAST_RANDOM:
        return False
    if value.unique().numel() < _DISTINCT * value.numel():
        return False
    table = value.detach().double()
    for axis in range(table.ndim):
        length = table.shape[axis]
        if length < 4:
            continue
        first, second = table.narrow(axis, 0, length - 1), table.narrow(axis, 1, length - 1)
        pairs = torch.stack([first.flatten(), second.flatten()])
        if float(torch.corrcoef(pairs)[0, 1].abs()) > _ALIKE:
            return False
    return True


def _changed_in_forward(subject: CheckedStep) -> list[str]:
    """Return the tensors that a forward pass of the copy changes and that an evaluation depends on."""
    step = subject.step
    saved = _saved(step)
    before = {(part, name): value for _, part in step.named_parts() for name, value in _changeable(part, saved)}
    changed: dict[tuple[torch.nn.Module, str], None] = {}

    def look(module: torch.nn.Module, args: Any, output: Any) -> None:
        for part in module.modules():
            for name, value in _changeable(part, saved):
                if (part, name) in before and not _same(before[part, name], value):
                    changed[part, name] = None

    handles = [module.register_forward_hook(look) for module in step.modules]
    try:
        step.run(gradients=False)
    finally:
        for handle in handles:
            handle.remove()
    paths = {part: path for path, part in step.named_parts()}
    return [joined(paths[part], name) for part, name in changed if _matters(subject, part, name)]


def _changed_by_script(subject: CheckedStep) -> list[str]:
    """Return the numbers and arrays of modules that changed between two steps and that an evaluation depends on."""
    step = subject.step
    return [
        joined(path, name)
        for path, part in step.named_parts()
        for name, value in step.tape.values.get(id(part), {}).items()
        if name in vars(part)
        and not np.array_equal(vars(part)[name], value, equal_nan=True)
        and _matters(subject, part, name)
    ]


def _changeable(part: torch.nn.Module, saved: set[int]) -> Iterator[tuple[str, Any]]:
    """Iterate over the names and copies of the tensors and numbers of a module that are not saved."""
    for name, value in (*_own_attributes(part), *part._buffers.items()):
        if isinstance(value, torch.Tensor) and id(value) not in saved:
            yield name, value.detach().clone()
        elif type(value) is float:
            yield name, value


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return bool(first.shape == second.shape and torch.equal(first, second))
    return bool(first == second)


def _matters(subject: CheckedStep, part: torch.nn.Module, attribute: str) -> bool:
    """Whether predictions in evaluation mode depend on an attribute of a module: it is replaced by another value."""
    step, batch = subject.step, subject.batch
    value = getattr(part, attribute, None)
    is_tensor = isinstance(value, torch.Tensor)
    if not batch.predictions or value is None or (is_tensor and not value.is_floating_point()):
        return False
    key = batch.predictions[0].key
    base = step.evaluated(key)
    with step.other_attribute(part, attribute, value.detach() * 1.5 + 0.5 if is_tensor else value * 1.5 + 0.5):
        other = step.run(evaluates=True, until=key, gradients=False)[key]
    return not torch.equal(base, other)
