"""The probe of models whose saved state is not all that they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch

from leadline.frameworks.check.outcome import Tested, failed, not_applicable, one_line, passed
from leadline.frameworks.torch.check.outcome import CheckedStep

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
    hidden = _hidden_modules(step.modules)
    if hidden:
        return failed(
            f"{hidden[0]} is a module in a list or dictionary of Python: its parameters are not in state_dict, and "
            "model.to and model.train do not reach it",
            _ADVICE,
            names=hidden[:16],
        )
    outside = [
        name
        for name, value in _plain_tensors(step.modules)
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


def _hidden_modules(modules: list[torch.nn.Module]) -> list[str]:
    known = {id(part) for module in modules for part in module.modules()}
    found = []
    for module in modules:
        for path, part in module.named_modules():
            for name, value in _own_attributes(part):
                for rest, item in _nested(value):
                    if isinstance(item, torch.nn.Module) and id(item) not in known and _has_parameters(item):
                        found.append(_joined(path, name) + rest)
    return found


def _has_parameters(module: torch.nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _plain_tensors(modules: list[torch.nn.Module]) -> Iterator[tuple[str, torch.Tensor]]:
    known = {id(tensor) for module in modules for tensor in (*module.parameters(), *module.buffers())}
    for module in modules:
        for path, part in module.named_modules():
            for name, value in _own_attributes(part):
                for rest, item in (("", value), *_nested(value)):
                    if isinstance(item, torch.Tensor) and id(item) not in known:
                        yield _joined(path, name) + rest, item


def _random_tensors(subject: CheckedStep) -> list[str]:
    """Return the tensors outside of state_dict that were drawn at random, and that predictions depend on."""
    found = []
    for module in subject.step.modules:
        saved = {id(value) for value in module.state_dict(keep_vars=True).values()}
        for path, part in module.named_modules():
            for name, value in (*_own_attributes(part), *part._buffers.items()):
                if isinstance(value, torch.Tensor) and id(value) not in saved and _is_random(value):
                    found.append(_joined(path, name))
    return [name for name in found if _matters(subject, name)]


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
    saved = {id(value) for module in step.modules for value in module.state_dict(keep_vars=True).values()}
    before = _changeable(step.modules, saved)
    changed: list[str] = []

    def look(module: torch.nn.Module, args: Any, output: Any) -> None:
        for key, value in _changeable([module], saved).items():
            if key in before and not _same(before[key][1], value[1]):
                changed.append(value[0])

    handles = [module.register_forward_hook(look) for module in step.modules]
    try:
        step.run(gradients=False)
    finally:
        for handle in handles:
            handle.remove()
    return [name for name in dict.fromkeys(changed) if _matters(subject, name)]


def _changeable(modules: list[torch.nn.Module], saved: set[int]) -> dict[tuple[int, str], tuple[str, Any]]:
    """Return copies of the tensors and numbers of modules that are not saved, by module and name."""
    found: dict[tuple[int, str], tuple[str, Any]] = {}
    for module in modules:
        for path, part in module.named_modules():
            for name, value in (*_own_attributes(part), *part._buffers.items()):
                if isinstance(value, torch.Tensor) and id(value) not in saved:
                    found[id(part), name] = (_joined(path, name), value.detach().clone())
                elif type(value) is float:
                    found[id(part), name] = (_joined(path, name), value)
    return found


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor):
        return bool(first.shape == second.shape and torch.equal(first, second))
    return bool(first == second)


def _matters(subject: CheckedStep, name: str) -> bool:
    """Whether predictions in evaluation mode depend on an attribute: it is replaced by another value."""
    step, batch = subject.step, subject.batch
    if not batch.predictions:
        return False
    key = batch.predictions[0].key
    path, _, attribute = name.rpartition(".")
    for module in step.modules:
        part = dict(module.named_modules()).get(path)
        value = getattr(part, attribute, None) if part is not None else None
        if part is None or value is None:
            continue
        base = step.run(evaluates=True, until=key, gradients=False)[key]
        is_tensor = isinstance(value, torch.Tensor)
        if is_tensor and not value.is_floating_point():
            return False
        changed = value.detach() * 1.5 + 0.5 if is_tensor else value * 1.5 + 0.5
        with step.other_attribute(part, attribute, changed):
            other = step.run(evaluates=True, until=key, gradients=False)[key]
        return not torch.equal(base, other)
    return False


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
