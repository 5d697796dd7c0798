"""The probe of models that behave differently than their mode says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import torch
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
    unscaled_drops,
)
from leadline.frameworks.check.outcome import Tested, failed, not_applicable
from leadline.frameworks.torch.check.outcome import CheckedStep


class _Signature(NamedTuple):
    """Where a function that drops elements takes how many, and whether it is in training."""

    p: str = "p"
    place: int = 1
    default: float = 0.5
    mode: str = "training"
    """The argument that says whether it is in training; empty: it has none."""
    place_of_mode: int = 2


class _Call(NamedTuple):
    """A call that drops elements in evaluation mode."""

    name: str
    mode: str


_SIGNATURES: Final = dict.fromkeys(
    ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "dropout_"),
    _Signature(),
) | {
    "scaled_dot_product_attention": _Signature("dropout_p", 4, 0.0, mode=""),
    "multi_head_attention_forward": _Signature("dropout_p", 10, 0.0, place_of_mode=13),
}

_DRAWS: Final = 16
_LEAST_DRAWN: Final = 2048
"""Elements that are drawn, so that the share that is kept is known to a few hundredths."""
_MAX_ELEMENTS: Final = 1 << 22
_SAME_FACTOR: Final = 1e-3
_OTHER_SCALE: Final = 0.15


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
        name, mode = seen.calls[0]
        how = "is called with training=True" if mode else "drops in every mode"
        return failed(
            f"in evaluation mode dropout is still active: F.{name} {how}",
            "pass training=self.training, or use nn.Dropout" if mode else "pass dropout_p=p if self.training else 0.0",
            calls=len(seen.calls),
        )
    for name, scale in _scales_in_training(subject, parts):
        if abs(scale - 1) > _OTHER_SCALE:
            return unscaled_drops(name, scale)
    if not drops and not norms:
        return same_in_both_modes()
    return follows_mode(len(drops), len(norms))


def _scales_in_training(
    subject: CheckedStep, parts: Sequence[tuple[str, torch.nn.Module]]
) -> Iterator[tuple[str, float]]:
    """Iterate over the names of the script's own modules that drop elements.

    With each, the mean of its output in training, as a multiple of that in evaluation.
    """
    given: dict[torch.nn.Module, torch.Tensor] = {}

    def keep(part: torch.nn.Module, args: tuple[Any, ...]) -> None:
        if len(args) == 1 and isinstance(args[0], torch.Tensor) and args[0].is_floating_point():
            given.setdefault(part, args[0].detach())

    own = {
        part: name
        for name, part in parts
        if not type(part).__module__.startswith("torch.") and next(part.parameters(), None) is None and part.training
    }
    handles = [part.register_forward_pre_hook(keep) for part in own]
    try:
        if own:
            subject.step.run(gradients=False)
    finally:
        for handle in handles:
            handle.remove()
    for part, value in given.items():
        scale = _scale_in_training(part, value) if 0 < value.numel() <= _MAX_ELEMENTS else None
        if scale is not None:
            yield own[part] or type(part).__name__, scale


def _scale_in_training(part: torch.nn.Module, given: torch.Tensor) -> float | None:
    """Return the mean of a module's output in training, as a multiple of that in evaluation.

    None: it does not return what it returns in evaluation, times a factor, and 0 in place of what it drops.
    """
    with torch.no_grad():
        try:
            part.eval()
            evaluated = part(given)
        finally:
            part.train()
        if not isinstance(evaluated, torch.Tensor) or torch.equal(part(given), evaluated):
            return None
        draws = torch.stack([part(given) for _ in range(_DRAWS)]).double()
    expected = evaluated.double().expand_as(draws)
    is_there = expected != 0
    is_kept = is_there & (draws != 0)
    if int(is_there.sum()) < _LEAST_DRAWN or not 0 < is_kept.sum() < is_there.sum():
        return None
    factors = draws[is_kept] / expected[is_kept]
    if float(factors.std()) > _SAME_FACTOR * abs(float(factors.mean())):
        return None
    return float(factors.mean() * is_kept.sum() / is_there.sum())


def _is_trained(module: Any) -> bool:
    return any(parameter.requires_grad for parameter in module.parameters())


def _trained(parts: list[tuple[str, Any]], subject: CheckedStep) -> list[str]:
    """Return the parts that are off although the model around them is trained."""
    return [name for name, part in parts if not part.training]


class _Dropouts(TorchFunctionMode):  # type: ignore[misc]
    """Lists the calls of dropout, and of attention with dropout, that drop something."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[_Call] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _SIGNATURES and _drops(func, name, args, kwargs):
            self.calls.append(_Call(name, _SIGNATURES[name].mode))
        return func(*args, **kwargs)


def _drops(func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a call drops elements: without a mode among its arguments it does so in every mode."""
    signature = _SIGNATURES[name]
    p = kwargs.get(signature.p, args[signature.place] if len(args) > signature.place else signature.default)
    if not signature.mode:
        return float(p) > 0
    is_of_functional = getattr(functional, name, None) is func
    training = kwargs.get(signature.mode, kwargs.get("train"))
    if training is None:
        at = signature.place_of_mode
        training = args[at] if len(args) > at else is_of_functional
    return bool(training) and float(p) > 0
