"""The probe of models that behave differently than their mode says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from leadline.frameworks.check.modes import (
    LAST_BATCH,
    MOSTLY_DROPPED,
    NEVER,
    follows_mode,
    mostly_dropped,
    odd_momentum,
    same_in_both_modes,
)
from leadline.frameworks.check.outcome import Tested, failed, not_applicable
from leadline.frameworks.torch.check.outcome import CheckedStep

_DROPOUTS: Final = frozenset(
    ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "dropout_")
)


def mode_mismatch(subject: CheckedStep) -> Tested:
    """Look at dropout and batch statistics in both modes, and at what evaluation draws by chance."""
    step, batch = subject.step, subject.batch
    if not batch.model_calls:
        return not_applicable("the step calls no module with parameters")
    parts = list(step.named_parts())
    drops = [(name, part) for name, part in parts if isinstance(part, _DropoutNd) and part.p > 0]
    norms = [(name, part) for name, part in parts if isinstance(part, _BatchNorm) and part.track_running_stats]
    for name, part in drops:
        if part.p >= MOSTLY_DROPPED:
            return mostly_dropped(name, part.p)
    for name, part in norms:
        if part.momentum is not None and (part.momentum > LAST_BATCH or part.momentum <= NEVER):
            return odd_momentum(name, part.momentum, part.momentum, "PyTorch's momentum is the weight of the new batch")
    called = [call for call in batch.model_calls if call.has_gradients]
    still = [call for call in called if not call.is_training and _is_trained(call.function)]
    if still and len(still) == len(called) and (_trained(drops, subject) or _trained(norms, subject)):
        return failed(
            "the model was in evaluation mode in this train step: without dropout, and with running statistics",
            "call model.train() before training, and again after each evaluation",
        )
    until = batch.predictions[0].key if batch.predictions else None
    seen = _Dropouts()
    with seen:
        step.run(evaluates=True, until=until, gradients=False)
    if seen.calls:
        return failed(
            f"in evaluation mode dropout is still active: F.{seen.calls[0]} is called with training=True",
            "pass training=self.training, or use nn.Dropout",
            calls=len(seen.calls),
        )
    if not drops and not norms:
        return same_in_both_modes()
    return follows_mode(len(drops), len(norms))


def _is_trained(module: Any) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


def _trained(parts: list[tuple[str, Any]], subject: CheckedStep) -> list[str]:
    """Return the parts that are off although the model around them is trained."""
    return [name for name, part in parts if not part.training]


class _Dropouts(TorchFunctionMode):  # type: ignore[misc]
    """Lists the calls of dropout that drop something."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _DROPOUTS and _drops(func, args, kwargs):
            self.calls.append(name)
        return func(*args, **kwargs)


def _drops(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    position_of_p, position_of_mode = 1, 2
    default = getattr(functional, getattr(func, "__name__", ""), None) is func
    p = kwargs.get("p", args[position_of_p] if len(args) > position_of_p else 0.5)
    training = kwargs.get(
        "training", kwargs.get("train", args[position_of_mode] if len(args) > position_of_mode else default)
    )
    return bool(training) and float(p) > 0
