"""The rule stalled_training."""

from __future__ import annotations

from typing import ClassVar, Final

from leadline.records.formatting import exact
from leadline.rules import Advice, Clear, Needs, Rule, Severity, Undecided, Verdict, Window
from leadline.rules.bounds import PositiveFloat
from leadline.rules.messages import fired

_SECOND_NS = 1_000_000_000
_ADVICE: Final = Advice(
    "py-spy dump on the training's processes, then {where_it_hangs}; usually a worker waits for another one that has "
    "exited, or a data loader for its data"
)


class StalledTraining(Rule, frozen=True, kw_only=True):
    """Fires when a job is running but its training has recorded nothing new for a while.

    Why it matters:
        A deadlocked collective, a data loader that hangs or a lost peer costs as much as a training that learns.
    How it decides:
        Evaluated every second from the start of the run. Fires if ``moment - time of the last record > threshold``.
        Records are what the training writes (captured steps, and a heartbeat while steps pass without capture); the
        job counts as running as long as its node is sampled.
    Not a number:
        Only times are evaluated.
    Blind spots:
        Before the first step it is undecided, since loading may take any time. A long evaluation, checkpoint or
        upload between steps looks like a stall. A training that repeats steps without progress does not.
    Args:
        threshold: Seconds without a new record, > 0.
        stop_training_on_fire: Stop the job when it fires, as with ``--on stalled_training=stop_training``.
        training_job_name_prefix: Stop the job only if the name of the run starts with this prefix; none: always.
    Source:
        SageMaker developer guide, "StalledTrainingRule"; SageMaker's rule stops the one job whose name has the
        prefix, ours the run that it is evaluated on.
    """

    severity: ClassVar[Severity] = "fatal"

    threshold: PositiveFloat = 1800.0
    stop_training_on_fire: bool = False
    training_job_name_prefix: str | None = None

    def needs(self) -> Needs:
        return Needs(scan_seconds=1.0)

    def evaluate(self, window: Window) -> Verdict:
        scan = window.scan
        if scan is None or scan.last_record_ns is None:
            return Undecided("no step yet")
        silent_ns = scan.time_ns - scan.last_record_ns
        if silent_ns <= self.threshold * _SECOND_NS:
            return Clear()
        return fired(
            f"nothing new since step {scan.last_step}, for more than {exact(self.threshold)} s",
            advice=_ADVICE,
            evidence={
                "silent_seconds": silent_ns / _SECOND_NS,
                "last_step": scan.last_step,
                "threshold": self.threshold,
            },
        )

    def implied_actions(self, run_name: str) -> tuple[str, ...]:
        if not self.stop_training_on_fire or not run_name.startswith(self.training_job_name_prefix or ""):
            return ()
        return ("stop_training",)
