"""The probes by name, and the check that makes them in the process of the training."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from leadline.frameworks.check.outcome import NotRepeatableError, Tested, make_probe, one_line, without_results
from leadline.frameworks.pure_check.batch import PureBatch
from leadline.frameworks.pure_check.influence import model_inputs, unused_inputs
from leadline.frameworks.pure_check.learning import Learning, ignored_input, unlearnable_batch
from leadline.frameworks.pure_check.padding import padding_influence
from leadline.frameworks.pure_check.pure_step import PureStep
from leadline.frameworks.pure_check.samples import look_ahead, loss_direction, mixed_samples
from leadline.frameworks.pure_check.updates import update_size
from leadline.instrumentation.check import TimeLimit
from leadline.records.check_result import CheckResult

_OF_BATCH: Final[dict[str, Callable[[PureBatch], Tested]]] = {
    "mixed_samples": mixed_samples,
    "look_ahead": look_ahead,
    "padding_influence": padding_influence,
    "model_inputs": model_inputs,
}
_OF_LEARNING: Final[dict[str, Callable[[Learning], Tested]]] = {
    "unused_inputs": unused_inputs,
    "loss_direction": loss_direction,
    "unlearnable_batch": unlearnable_batch,
    "update_size": update_size,
    "ignored_input": ignored_input,
}


class PureCheck:
    """See ``leadline.instrumentation.check.CopyUnderTest``; the training waits while its step is computed again.

    Args:
        make: Returns the step, given the time at which all probes end. May raise ``NotRepeatableError``.
        number: The train step.
    """

    is_in_place = True

    def __init__(self, make: Callable[[float], PureStep], number: int) -> None:
        self._make, self._number = make, number
        self._results: list[CheckResult] = []

    def start(self, probes: Sequence[str], limit: TimeLimit) -> None:
        deadline = time.monotonic() + limit.waiting
        try:
            step = self._make(deadline)
            learning = Learning(PureBatch(step))
        except NotRepeatableError as error:
            self._results = without_results(list(probes), str(error), self._number)
            return
        except Exception as error:  # noqa: BLE001 - the code of the user is called in ways it was not written for
            why = f"the step cannot be computed once more: {one_line(error)}"
            self._results = without_results(list(probes), why, self._number)
            return
        for probe in probes:
            if time.monotonic() > deadline:
                why = f"the time limit of {limit.waiting:.0f} s was reached before"
                self._results += without_results([probe], why, self._number)
            else:
                self._results.append(make_probe(probe, _bound(probe, learning), self._number))

    def results(self, *, waits: bool) -> list[CheckResult] | None:
        return self._results


def _bound(probe: str, learning: Learning) -> Callable[[], Tested]:
    """Return a probe without arguments."""
    step = learning.step
    own: dict[str, Callable[[], Tested]] = {
        "mode_mismatch": step.test_modes,
        "incomplete_state": step.test_state,
        "gradient_of_parts": step.test_parts,
    }
    if probe in own:
        return own[probe]
    if probe in _OF_BATCH:
        of_batch = _OF_BATCH[probe]
        return lambda: of_batch(learning.batch)
    of_learning = _OF_LEARNING[probe]
    return lambda: of_learning(learning)
