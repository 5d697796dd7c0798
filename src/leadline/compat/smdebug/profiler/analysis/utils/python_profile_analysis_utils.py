"""One Python profile, and the functions in it, in smdebug's interface."""

from __future__ import annotations

import pstats
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from leadline.compat.smdebug.exceptions import SMDebugTypeError
from leadline.compat.smdebug.profiler.analysis.data_frames import import_pandas
from leadline.compat.smdebug.profiler.python_profile_utils import PythonProfileModes, StepPhase

Place = tuple[str, int, str]
"""File, line and name of a function."""
Statistics = Mapping[Place, tuple[int, int, float, float, Mapping[Place, tuple[int, int, float, float]]]]
"""What ``pstats.Stats.stats`` holds: primitive calls, calls, own and cumulative seconds, and the callers."""


class Metrics(Enum):
    """What functions are ordered by."""

    TOTAL_TIME = "tottime"
    CUMULATIVE_TIME = "cumtime"
    PRIMITIVE_CALLS = "pcalls"
    TOTAL_CALLS = "ncalls"


@dataclass(slots=True, kw_only=True)
class StepPythonProfileStats:
    """One profile: of a part of a step, or of what comes before the first step or after the last."""

    profiler_name: str
    framework: str
    node_id: str
    start_mode: PythonProfileModes
    start_step: float
    """The global step; -1 before the first."""
    start_phase: StepPhase
    start_time_since_epoch_in_micros: float
    end_mode: PythonProfileModes
    end_step: float
    """The global step; infinity after the last."""
    end_phase: StepPhase
    end_time_since_epoch_in_micros: float
    stats_path: str
    """The file; of a run of Leadline, the folder of the profile window."""
    read: Callable[[], Statistics] = field(repr=False)
    """Reads the functions of a profile of cProfile."""

    def has_start_and_end_mode(self, start_mode: PythonProfileModes, end_mode: PythonProfileModes) -> bool:
        """Return whether it begins in a mode and ends in another."""
        return self.start_mode == start_mode and self.end_mode == end_mode

    def in_time_interval(self, start_time_since_epoch_in_micros: float, end_time_since_epoch_in_micros: float) -> bool:
        """Return whether it overlaps an interval of time."""
        begins_before_end = self.start_time_since_epoch_in_micros <= end_time_since_epoch_in_micros
        return begins_before_end and self.end_time_since_epoch_in_micros >= start_time_since_epoch_in_micros

    def in_step_interval(
        self, start_step: float, end_step: float, start_phase: StepPhase, end_phase: StepPhase
    ) -> bool:
        """Return whether it lies within steps, from a point of the first to a point of the last.

        Its end may be the start of the step after the last, which is the end of the last.
        """
        first = (start_step, _order(start_phase))
        last = (end_step, _order(end_phase))
        begin = (self.start_step, _order(self.start_phase))
        end = (self.end_step, _order(self.end_phase))
        if self.end_phase is StepPhase.STEP_START and self.start_step < self.end_step:
            end = (self.end_step - 1, _order(StepPhase.STEP_END))
        return first <= begin and end <= last

    def has_pre_step_zero_profile_stats(self) -> bool:
        """Return whether it begins with the process."""
        return self.start_phase is StepPhase.START

    def has_post_hook_close_profile_stats(self) -> bool:
        """Return whether it ends with the process."""
        return self.end_phase is StepPhase.END

    def has_node_id(self, node_id: str) -> bool:
        """Return whether it is one of a process."""
        return self.node_id == node_id


def _order(phase: StepPhase) -> int:
    return list(StepPhase).index(phase)


class cProfileStats:
    """The functions of one or several profiles of cProfile.

    Attributes:
        ps: The same as ``pstats.Stats``.
        function_stats_list: The same, function by function.
    """

    def __init__(self, ps: pstats.Stats) -> None:
        self.ps = ps
        self.function_stats_list = [cProfileFunctionStats(*entry) for entry in statistics_of(ps).items()]

    def print_top_n_functions(self, by: Metrics, n: int = 10) -> None:
        """Print the first functions in descending order of a metric.

        Raises:
            SMDebugTypeError: ``by`` is no member of ``Metrics``, or ``n`` no integer.
        """
        if not isinstance(by, Metrics):
            raise SMDebugTypeError(f"by is one of {', '.join(f'Metrics.{metric.name}' for metric in Metrics)}")
        if not isinstance(n, int):
            raise SMDebugTypeError(f"n is a number of functions, not {n!r}")
        self.ps.sort_stats(by.value).print_stats(n)

    def get_function_stats(self) -> Any:
        """Return a table of pandas with a row for each function: its name, calls, seconds and callers."""
        return import_pandas().DataFrame([function.to_dict() for function in self.function_stats_list])


class cProfileFunctionStats:
    """One function in profiles of cProfile.

    Attributes:
        function_name: ``file:line(name)``.
        prim_calls, total_calls: The calls that are not recursive, and all.
        total_time, cumulative_time: Seconds in the function itself, and with all that it calls.
        callers: The functions that call it, by the same names.
    """

    def __init__(self, key: Place, value: tuple[int, int, float, float, Mapping[Place, Any]]) -> None:
        self.function_name = _name(key)
        self.prim_calls, self.total_calls, self.total_time, self.cumulative_time, callers = value
        self.callers = [_name(caller) for caller in callers]

    def to_dict(self) -> dict[str, object]:
        """Return the attributes by name."""
        return dict(vars(self))

    def __repr__(self) -> str:
        return f"cProfileFunctionStats({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def statistics_of(ps: pstats.Stats) -> Statistics:
    """Return the functions of ``pstats.Stats``, of which its types say nothing."""
    known: Statistics = ps.stats  # type: ignore[attr-defined]
    return known


def _name(place: Place) -> str:
    return str(pstats.func_std_string(place))  # type: ignore[attr-defined]


class PyinstrumentStepStats:
    """One profile of pyinstrument.

    Attributes:
        html_file_path: Its page; empty: there is none.
        json_stats: Its call tree.
    """

    def __init__(self, html_file_path: str, json_stats: Any) -> None:
        self.html_file_path, self.json_stats = html_file_path, json_stats
