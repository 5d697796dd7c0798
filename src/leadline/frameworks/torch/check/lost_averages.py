"""Averages of trained weights and those of a copy that a step computes, and that nothing keeps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final, NamedTuple

import torch

from leadline.frameworks.check.outcome import Tested, failed
from leadline.frameworks.torch.check.model_labels import joined
from leadline.frameworks.torch.check.script_variables import script_models
from leadline.frameworks.torch.check.step_copy import StepCopy
from leadline.frameworks.torch.check.step_tape import RecordedCall, StepTape

_ROUNDINGS: Final = 8
"""Units of rounding by which an average may differ from its exact value."""
_ADVICE: Final = (
    "write it into the copy, without gradients: theirs.lerp_(ours, 1 - decay), theirs.copy_(average), or "
    "load_state_dict; theirs = ... gives a name to another tensor"
)


class _Pair(NamedTuple):
    """A trained weight and one of a copy, by their identities."""

    trained: int
    copied: int


def lost_average(step: StepCopy) -> Tested | None:
    """Return the failure if a step averages the weights of a copy with the trained ones, and the copy stays as it was.

    A healthy average is in the copy afterwards, or in what is made of it. Who keeps a model as it is does not compute
    such an average, and who interpolates between two models writes the result into a third one.
    """
    lost = _lost(step.tape, step.trained)
    if not lost:
        return None
    for name, model in script_models():
        paths = [path for path, parameter in model.named_parameters() if id(parameter) in lost]
        part = model.get_submodule(_common(paths)) if paths else model
        if 2 * len(paths) >= len(list(part.parameters())) and paths:
            label = joined(name, _common(paths))
            return failed(
                f"the step averages the weights of {label} with trained ones and keeps the average nowhere: {label} "
                "stays as it is",
                _ADVICE,
                names=[joined(name, path) for path in paths[:16]],
            )
    return None


def _common(paths: Sequence[str]) -> str:
    """Return the path of the module that has all of some parameters."""
    parts = zip(*(path.split(".")[:-1] for path in paths), strict=False)
    return ".".join(names[0] for names in takewhile(lambda names: len(set(names)) == 1, parts))


def _lost(tape: StepTape, trained: set[int]) -> set[int]:
    """Return the identities of the parameters whose average with a trained one nothing keeps."""
    origins = _origins(tape, trained)
    uses: dict[int, list[RecordedCall]] = {}
    for call in tape.calls:
        for key in set(call.consumed):
            uses.setdefault(key, []).append(call)
    found = [(key, pair) for key, pair in origins.items() if _is_average(tape, key, pair)]
    kept = {pair for key, pair in found if _is_used(key, uses, origins, pair)}
    return {pair.copied for _, pair in found if pair not in kept}


def _origins(tape: StepTape, trained: set[int]) -> dict[int, _Pair]:
    """Return the tensors that are computed without gradients from one trained weight and one of a copy."""
    weights = {key for key, tensor in tape.tensors.items() if isinstance(tensor, torch.nn.Parameter)}
    sources = {key: frozenset((key,)) for key in weights}
    pairs: dict[int, _Pair] = {}
    for call in tape.calls:
        if call.is_model:
            continue
        union = frozenset[int]().union(*(sources.get(key, frozenset()) for key in call.consumed))
        ours, theirs = union & trained, union - trained
        for key in set(call.produced) - weights:
            if tape.tensors[key].requires_grad:
                continue
            sources[key] = union
            if len(ours) == len(theirs) == 1:
                pairs[key] = _Pair(next(iter(ours)), next(iter(theirs)))
    return pairs


def _is_average(tape: StepTape, key: int, pair: _Pair) -> bool:
    """Whether a tensor is an average, with both weights above 0, of two parameters as they are at the end of the step.

    What was written into the copy is that copy.
    """
    made, trained, copied = (tape.tensors[at].detach() for at in (key, pair.trained, pair.copied))
    if not (made.shape == trained.shape == copied.shape and made.is_floating_point() and made.numel()):
        return False
    unit = _ROUNDINGS * torch.finfo(made.dtype).eps
    made, trained, copied = made.double(), trained.double(), copied.double()
    between, moved = trained - copied, made - copied
    rounding = unit * float(torch.maximum(trained.abs(), copied.abs()).max())
    share = float((moved * between).sum() / (between * between).sum().clamp(min=1e-300))
    if not 0.0 < share < 1.0 or float(moved.abs().max()) <= 2 * rounding:
        return False
    return bool((moved - share * between).abs().max() <= rounding)


def _is_used(key: int, uses: dict[int, list[RecordedCall]], origins: dict[int, _Pair], pair: _Pair) -> bool:
    """Whether anything but another form of the same average is made of it."""
    return any(
        origins.get(produced) != pair or (produced != key and _is_used(produced, uses, origins, pair))
        for call in uses.get(key, ())
        for produced in call.produced or (0,)
    )
