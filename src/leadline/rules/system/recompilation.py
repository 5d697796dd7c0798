"""The rule recompilation."""

from __future__ import annotations

from typing import ClassVar, Final

from leadline.records.formatting import counted
from leadline.records.names import ALL_RECOMPILATIONS, CHECKS, RECOMPILATIONS, RECOMPILE_LIMIT
from leadline.rules import (
    Advice,
    Clear,
    Needs,
    NotApplicable,
    Rule,
    Severity,
    TensorNeed,
    TensorReading,
    Undecided,
    Verdict,
    Window,
)
from leadline.rules.bounds import PositiveInt
from leadline.rules.messages import and_more, fired

_EVERY: Final = 10
_ADVICE: Final = Advice(
    "compiling for sizes that vary (dynamic=True), or padding to one of a few sizes, where sizes differ, and a tensor "
    "in place of a number that changes at each step; usually batches are padded to their longest sample, or a counter "
    "of the module is read in forward"
)


class Recompilation(Rule, frozen=True, kw_only=True):
    """Fires when torch.compile compiles a function again and again.

    Why it matters:
        A compilation takes as long as hundreds of steps. At its limit, 8 for a function unless it was changed, PyTorch
        gives up with a warning, and the function runs uncompiled from then on.
    How it decides:
        Reads how often each function was compiled after its first time, and what did not hold any more, from the record
        that PyTorch keeps of compilations. Fires once a function has reached the limit, or was compiled again
        ``recompilations`` times. Does not apply where nothing was compiled.
    Not a number:
        Nothing that this rule reads can be NaN.
    Blind spots:
        Fewer compilations, which may take long, too; functions that are not compiled at all (graph breaks). The record
        is looked at where loop checks are captured, and holds the last 64 compilations. Versions of PyTorch before 2.6
        may keep none.
    Args:
        recompilations: Compilations of one function after its first that are too many, >= 1.
    Source:
        Ours; ``torch._dynamo.utils.get_compilation_metrics`` and ``torch._dynamo.config.recompile_limit``.
    """

    severity: ClassVar[Severity] = "advice"
    explains: ClassVar[tuple[str, ...]] = ("step_outlier", "throughput_regression")

    recompilations: PositiveInt = 8

    def needs(self) -> Needs:
        regex = f"/({RECOMPILATIONS}|{RECOMPILE_LIMIT})$"
        return Needs((TensorNeed(CHECKS, regex=regex, statistics=("value",), modes=("train",), every=_EVERY),))

    def evaluate(self, window: Window) -> Verdict:
        readings = window.readings("value")
        counts = [reading for reading in readings if reading.tensor.endswith(f"/{RECOMPILATIONS}")]
        if all(reading.value < 0 for reading in counts):
            return NotApplicable("torch.compile has compiled nothing") if counts else Undecided("no step was inspected")
        counts = [reading for reading in counts if reading.tensor != ALL_RECOMPILATIONS]
        if not counts:
            return Clear()
        limits = {_function(reading): reading for reading in readings if reading.tensor.endswith(f"/{RECOMPILE_LIMIT}")}
        worst = max(counts, key=lambda reading: (_function(reading) in limits, reading.value))
        limit = limits.get(_function(worst))
        if limit is None and worst.value < self.recompilations:
            return Clear()
        found = [one for one in counts if _function(one) in limits or one.value >= self.recompilations]
        times = counted(int(worst.value) + 1, "time")
        end = f" and runs uncompiled since: {int(limit.value):,} is the limit" if limit is not None else ""
        return fired(
            f"{_function(worst)} was compiled {times}{end}; what did not hold was mostly "
            f"{_cause(worst)}{and_more(len(found) - 1, 'function')}",
            _function(worst),
            advice=_ADVICE,
            evidence={"recompilations": int(worst.value), "most": self.recompilations},
            worker=worst.worker,
        )


def _function(reading: TensorReading) -> str:
    """Return ``forward (train.py:7)``."""
    return reading.tensor.rpartition("/")[0].partition(": ")[0]


def _cause(reading: TensorReading) -> str:
    """Return what did not hold at a compilation."""
    return reading.tensor.rpartition("/")[0].partition(": ")[2]
