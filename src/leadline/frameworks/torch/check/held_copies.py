"""What a script holds as a copy of its weights by the name, and is the weights themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from leadline.frameworks.check.outcome import Tested, failed
from leadline.frameworks.torch.check.model_labels import inner
from leadline.frameworks.torch.check.script_variables import script_namespaces
from leadline.frameworks.torch.check.step_copy import StepCopy
from leadline.records.metric_names import words_of

_KEPT: Final = frozenset(("best", "backup", "snapshot", "previous", "prev", "old", "copy", "saved", "lowest"))
"""Words of what is kept as it was."""
_FOLLOWING: Final = frozenset(("target", "teacher", "ema", "momentum", "averaged", "swa", "old", "frozen"))
"""Words of a model that follows the trained one, or stays behind it."""
_ADVICE: Final = (
    "copy it: copy.deepcopy(model), or copy.deepcopy(model.state_dict()), which holds the weights themselves and "
    "changes with every step"
)


def live_copy(step: StepCopy) -> Tested | None:
    """Return the failure if a variable whose name promises a copy holds what is trained."""
    trained = {parameter.untyped_storage().data_ptr() for parameter in step.parameters}
    for namespace in script_namespaces():
        for name, value in list(namespace.items()):
            words = set(words_of(name)) if isinstance(name, str) else set()
            if words & _KEPT and (key := _live_tensor(value, trained)) is not None:
                return failed(
                    f"{name} holds the weights that are trained, and no copy of them: its {key} changes with every "
                    "step",
                    _ADVICE,
                    names=[name],
                )
            other = _other_name(value, namespace, step) if words & (_KEPT | _FOLLOWING) else ""
            if other and (words & _KEPT or _is_called_without_gradients(inner(value), step)):
                return failed(
                    f"{name} and {other} are one model, the trained one: {name} never differs from it",
                    _ADVICE,
                    names=[name],
                )
    return None


def _live_tensor(value: Any, trained: set[int], depth: int = 2) -> str | None:
    """Return the key of a trained weight in a dictionary of tensors; None: there is none.

    Args:
        trained: The addresses of the trained weights.
    """
    if not isinstance(value, Mapping) or depth == 0:
        return None
    for key, item in value.items():
        if isinstance(item, torch.Tensor):
            is_strided = item.layout == torch.strided and item.numel() > 0
            if is_strided and item.untyped_storage().data_ptr() in trained:
                return str(key)
        elif (found := _live_tensor(item, trained, depth - 1)) is not None:
            return found
    return None


def _other_name(value: Any, namespace: Mapping[str, Any], step: StepCopy) -> str:
    """Return the variable beside that of a trained model that has it, too, and promises no copy; "": there is none."""
    if not isinstance(value, torch.nn.Module) or inner(value) not in step.modules:
        return ""
    held = {id(parameter) for parameter in step.parameters}
    if not any(id(parameter) in held for parameter in value.parameters()):
        return ""
    others = (
        name
        for name, other in list(namespace.items())
        if isinstance(name, str) and isinstance(other, torch.nn.Module) and inner(other) is inner(value)
    )
    return next((name for name in others if not set(words_of(name)) & (_KEPT | _FOLLOWING)), "")


def _is_called_without_gradients(model: Any, step: StepCopy) -> bool:
    calls = (call for call in step.tape.calls if call.is_model and inner(call.function) is model)
    return any(not call.has_gradients for call in calls)
