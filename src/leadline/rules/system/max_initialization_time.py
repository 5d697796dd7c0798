"""The rule max_initialization_time."""

from __future__ import annotations

from typing import ClassVar, Final

from leadline.records.formatting import exact
from leadline.rules import Advice, Clear, Needs, Rule, Severity, Undecided, Verdict, Window
from leadline.rules.bounds import PositiveFloat
from leadline.rules.messages import fired

_MINUTE_NS = 60_000_000_000
_ADVICE: Final = Advice(
    "py-spy dump on the training's processes shows what they do; usually data are downloaded or unpacked first, or a "
    "rank waits for another one that never started"
)


class MaxInitializationTime(Rule, frozen=True, kw_only=True):
    """Fires when a job has not completed its first step long after its start.

    Why it matters:
        Machines cost money while data are downloaded, archives unpacked and models built; and a job that waits for
        a rank that never started waits forever.
    How it decides:
        Evaluated every second from the start of the run. Fires if no step was recorded, and more than ``threshold``
        minutes have passed since the start.
    Not a number:
        Only times are evaluated.
    Blind spots:
        A step is known once the first record of the training is written. A job whose framework is not captured
        never records a step.
    Args:
        threshold: Minutes, > 0.
    Source:
        SageMaker developer guide, "MaxInitializationTime".
    """

    severity: ClassVar[Severity] = "advice"

    threshold: PositiveFloat = 20.0

    def needs(self) -> Needs:
        return Needs(scan_seconds=1.0)

    def evaluate(self, window: Window) -> Verdict:
        scan = window.scan
        if scan is None:
            return Undecided("no evaluation moment yet")
        if scan.last_record_ns is not None:
            return Clear()
        minutes = (scan.time_ns - scan.started_ns) / _MINUTE_NS
        if minutes <= self.threshold:
            return Undecided("no step yet")
        return fired(
            f"no step within {exact(self.threshold)} minutes of the start",
            advice=_ADVICE,
            evidence={"minutes": minutes, "threshold": self.threshold},
        )
