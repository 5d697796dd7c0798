"""The first train step with a non-finite loss, and whether its batch was finite."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.frameworks.array_capture import CapturedArrays
from leadline.frameworks.loaded_adapters import LoadedAdapters
from leadline.instrumentation.step_context import StepContext
from leadline.records.plan import CaptureItem
from leadline.training.recorder.mode_schedules import PlanSchedules
from leadline.training.recorder.step_output import StepOutput


class NonFiniteLoss:
    """The first train step with a loss that is not finite: non-finite elements are counted there, scheduled or not.

    One step later they are everywhere.

    Attributes:
        step: That step; -1: there was none yet.
    """

    def __init__(
        self, context: StepContext, schedules: PlanSchedules, frameworks: LoadedAdapters, output: StepOutput
    ) -> None:
        self._clock, self._schedules, self._frameworks, self._output = context.clock, schedules, frameworks, output
        self._captured = CapturedArrays(context.note)
        self._batch = context.facts.of("whether a batch with a non-finite loss is finite is")
        self.step = -1

    def find(self, captured: Sequence[CaptureItem]) -> None:
        """Note that a loss of the current step is not finite, and count the non-finite elements of its batch.

        Args:
            captured: What is captured of the forward pass anyway.
        """
        self.step = self._clock.train_step
        items = self._schedules.non_finite_inputs(captured)
        if items:
            self._batch.call(self._capture, items)

    def _capture(self, items: Sequence[CaptureItem]) -> None:
        self._captured.begin(items, "train")
        for name, collections, array in self._frameworks.batch():
            self._captured.keep(name, collections, array)
        self._output.put_forward(self._captured, self._clock.stamp(), items)
