"""How inputs and parameters that the loss does not depend on are reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leadline.frameworks.check.outcome import Tested, failed, passed

NO_MODEL: Final = "the step calls no module with parameters"
ADVICE_INPUT: Final = (
    "use it in forward; a branch that is computed and not added, an index, or a mask that selects nothing, drops it"
)
ADVICE_PARAMETERS: Final = (
    "use the layer in forward, and return what it computes; detach(), .data, item() and no_grad() cut it off"
)
MIN_FEATURES: Final = 2


def unused_parameters(names: Sequence[str], share: float, advice: str = ADVICE_PARAMETERS) -> Tested:
    """Return the failure of weights that the loss does not depend on.

    Args:
        share: Their share of all elements.
    """
    return failed(
        f"the optimizer holds {len(names)} weight{'s' * (len(names) > 1)} that the loss does not depend on "
        f"({100 * share:.0f} % of its elements): {', '.join(names[:4])}{' …' if len(names) > 4 else ''}",
        advice,
        parameters=list(names[:32]),
    )


def left_out(names: Sequence[str], advice: str) -> Tested:
    """Return the failure of parameters that get gradients, and that no optimizer holds."""
    return failed(
        f"{len(names)} trainable parameter{'s' * (len(names) > 1)} get gradients and are in no optimizer: "
        f"{', '.join(names[:4])}{' …' if len(names) > 4 else ''}",
        advice,
        parameters=list(names[:32]),
    )


def ignored_inputs(names: Sequence[str]) -> Tested:
    """Return the failure of inputs that the loss does not depend on."""
    return failed(
        f"the loss does not depend on the input {', '.join(names)}: with that of other samples it stays the same",
        ADVICE_INPUT,
        inputs=list(names),
    )


def dead_features(name: str, features: Sequence[int], count: int, noun: str) -> Tested:
    """Return the failure of features, or channels, that never influence the loss."""
    shown = ", ".join(map(str, features[:8])) + (" …" if len(features) > 8 else "")
    return failed(
        f"{len(features)} of {count} {noun}s of {name} never influence the loss: {shown}",
        ADVICE_INPUT,
        features=list(features),
    )


def all_used(inputs: int, parameters: int) -> Tested:
    """Return the outcome if everything enters the loss."""
    given = f"{inputs} input{'s' * (inputs > 1)} and " if inputs else ""
    return passed(f"{given}all {parameters:,} trained parameters influence the loss")


def is_expert(name: str, separator: str = ".") -> bool:
    """Return whether a parameter is one of several numbered siblings, of which a batch may use some: an expert."""
    return any(part.strip("_").isdecimal() for part in name.split(separator)) and "expert" in name
