"""The exceptions of smdebug's interface."""

from __future__ import annotations

from leadline.compat.smdebug.core.modes import ModeKeys


class SMDebugError(Exception):
    """Base class of the exceptions of this interface."""


class SMDebugCustomerError(SMDebugError):
    """The script uses the interface wrongly."""


class SMDebugTypeError(SMDebugCustomerError, TypeError):
    """A value has the wrong type."""


class SMDebugRuntimeError(SMDebugCustomerError, RuntimeError):
    """The call is not possible now."""


class SMDebugNotImplementedError(SMDebugCustomerError, NotImplementedError):
    """The call is not supported."""


class SMDebugValueError(SMDebugCustomerError, ValueError):
    """A value is not allowed."""


class InvalidCollectionConfiguration(SMDebugError):
    """A collection selects nothing."""

    def __init__(self, c_name: str) -> None:
        self.c_name = c_name
        super().__init__(f"collection {c_name!r} selects nothing: it has no include_regex, tensor names or modules")


class StepNotYetAvailable(SMDebugError):
    """The training has not reached the step."""

    def __init__(self, step: int, mode: ModeKeys) -> None:
        self.step, self.mode = step, mode
        super().__init__(f"step {step} of mode {mode.name} is not available yet")


class StepUnavailable(SMDebugError):
    """Nothing was saved at the step, and the training has passed it."""

    def __init__(self, step: int, mode: ModeKeys) -> None:
        self.step, self.mode = step, mode
        super().__init__(f"nothing was saved at step {step} of mode {mode.name}")


class MissingCollectionFiles(SMDebugError):
    """The training has ended without collections files."""


class IndexReaderException(SMDebugError):
    """An index file cannot be read; a trial leaves it out and does not raise this."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class TensorUnavailable(SMDebugError):
    """No tensor of the name was saved."""

    def __init__(self, tname: str) -> None:
        self.tname = tname
        super().__init__(f"no tensor {tname!r} was saved")


class TensorUnavailableForStep(SMDebugError):
    """The tensor was not saved at the step."""

    def __init__(self, tname: str, step: int, mode: ModeKeys = ModeKeys.GLOBAL, has_reductions: bool = False) -> None:
        self.tname = tname
        self.step = step
        self.mode = mode
        self.has_reductions = has_reductions
        hint = "; its reductions were, see reduction_values()" if has_reductions else ""
        super().__init__(f"tensor {tname!r} was not saved at step {step} of mode {mode.name}{hint}")


class ShapeUnavailableForStep(SMDebugError):
    """The shape of the tensor was not saved at the step."""

    def __init__(self, tname: str, step: int, mode: ModeKeys = ModeKeys.GLOBAL) -> None:
        self.tname, self.step, self.mode = tname, step, mode
        super().__init__(f"the shape of tensor {tname!r} was not saved at step {step} of mode {mode.name}")


class InvalidWorker(SMDebugError):
    """No worker of the name saved anything."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        super().__init__(f"no worker {worker!r}")


class NoMoreData(SMDebugError):
    """The training has ended before the step."""

    def __init__(self, step: int, mode: ModeKeys, last_step: int) -> None:
        self.step, self.mode, self.last_step = step, mode, last_step
        super().__init__(f"the training has ended before step {step} of mode {mode.name}; the last step is {last_step}")


class NoMoreProfilerData(SMDebugError):
    """The training has ended before the time, in microseconds since the epoch; no reader raises this."""

    def __init__(self, timestamp: float) -> None:
        self.timestamp = timestamp
        super().__init__(f"the training has ended before {timestamp}")


class RuleEvaluationConditionMet(SMDebugError):
    """The condition of a rule is met."""

    def __init__(self, rule_name: str, step: int, end_of_rule: bool = False) -> None:
        self.rule_name, self.step, self.end_of_rule = rule_name, step, end_of_rule
        super().__init__(f"the condition of rule {rule_name} is met at step {step}")
