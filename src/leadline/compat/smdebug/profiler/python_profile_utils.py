"""Where a Python profile begins and ends, and how it was taken, in smdebug's interface."""

from __future__ import annotations

from enum import Enum, IntEnum

from leadline.compat.smdebug.core.modes import ModeKeys
from leadline.compat.smdebug.exceptions import SMDebugValueError
from leadline.compat.smdebug.profiler.profiler_constants import CPROFILE_NAME, PYINSTRUMENT_NAME


class PythonProfileModes(IntEnum):
    """The mode of the training at the begin or the end of a profile."""

    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4
    PRE_STEP_ZERO = 5
    """Before the first step."""
    POST_HOOK_CLOSE = 6
    """After the last step."""


class StepPhase(Enum):
    """The point of a step at which a profile begins or ends."""

    START = "start"
    """The start of the process."""
    STEP_START = "stepstart"
    FORWARD_PASS_END = "forwardpassend"
    STEP_END = "stepend"
    END = "end"
    """The end of the process."""


class PythonProfilerName(Enum):
    """The profilers."""

    CPROFILE = CPROFILE_NAME
    PYINSTRUMENT = PYINSTRUMENT_NAME


class cProfileTimer(Enum):
    """What cProfile measures."""

    TOTAL_TIME = "total_time"
    CPU_TIME = "cpu_time"
    OFF_CPU_TIME = "off_cpu_time"
    DEFAULT = "default"


def str_to_python_profile_mode(mode_str: str) -> PythonProfileModes:
    """Return a mode by its name in names of files: ``train``, ``prestepzero`` …

    Raises:
        SMDebugValueError: There is no such mode.
    """
    for mode in PythonProfileModes:
        if python_profile_mode_to_str(mode) == mode_str:
            return mode
    raise SMDebugValueError(f"there is no mode {mode_str!r} of Python profiles")


def python_profile_mode_to_str(mode: PythonProfileModes) -> str:
    """Return the name of a mode in names of files."""
    return mode.name.lower().replace("_", "")


def mode_keys_to_python_profile_mode(mode: ModeKeys) -> PythonProfileModes:
    """Return the mode of a profile that begins or ends in a step of a mode."""
    return PythonProfileModes(mode.value)
