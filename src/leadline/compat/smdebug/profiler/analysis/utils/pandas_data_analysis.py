"""Statistics of system metrics and timelines, in smdebug's interface."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Final

from leadline.compat.smdebug.profiler.analysis.data_frames import import_pandas

_PERCENTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_STEP: Final = "Step:ModeKeys."
_LOOP: Final = (f"{_STEP}TRAIN", f"{_STEP}GLOBAL")
_RANGES: Final = ((90, 100), (10, 90), (0, 10))


class StatsBy(Enum):
    """What the events of a timeline are grouped by."""

    TRAINING_PHASE = "training_phase"
    FRAMEWORK_METRICS = "framework_metric"
    PROCESS = "process"


class Resource(Enum):
    """A type of system metrics."""

    CPU = "cpu"
    GPU = "gpu"
    IO = "i/o"
    NETWORK = "network"
    MEMORY = "memory"


class PandasFrameAnalysis:
    """Statistics of the tables of a ``PandasFrame``.

    Args:
        system_df: The table of ``get_all_system_metrics``.
        framework_df: The table of ``get_all_framework_metrics``.
    """

    def __init__(self, system_df: Any, framework_df: Any) -> None:
        self._pandas = import_pandas()
        self.sys_metrics_df, self.framework_metrics_df = system_df, framework_df

    def get_job_statistics(self) -> dict[str, Any]:
        """Return the times of the job and their parts of its duration.

        The job lasts as long as its system metrics, the training loop from its first step to the last event of the
        timeline. Durations are microseconds, parts percent. Without metrics or steps, the dictionary is empty.
        """
        system, loop = self.sys_metrics_df, self._steps_of_loop()
        if system.empty or loop.empty:
            return {}
        first, last = system["timestamp_us"].min(), system["timestamp_us"].max()
        begin, end = loop["start_time_us"].min(), self.framework_metrics_df["end_time_us"].max()
        durations = {
            "initialization": max(begin - first, 0.0),
            "training_loop": end - begin,
            "finalization": max(last - end, 0.0),
        }
        whole = max(last, end) - min(first, begin)
        return {
            "start_time": system["timestamp"].min(),
            "end_time": system["timestamp"].max(),
            "job_duration": whole,
            "training_loop_start": loop["start_time"].min(),
            "training_loop_end": self.framework_metrics_df["end_time"].max(),
            "training_loop_duration": durations["training_loop"],
            "initialization": durations["initialization"],
            "finalization": durations["finalization"],
            **{f"{name}_%": 100 * part / whole if whole else 0.0 for name, part in durations.items()},
        }

    def get_step_statistics(self, by: StatsBy = StatsBy.TRAINING_PHASE) -> Any:
        """Return ``duration_mean, _min, _max, _p50, _p95`` and ``_p99`` in microseconds of the events of each group.

        Returns:
            None: ``by`` is no member of ``StatsBy``.
        """
        if not isinstance(by, StatsBy):
            return None
        table, column = self.framework_metrics_df, by.value
        if by is StatsBy.TRAINING_PHASE:
            table, column = table[table["process"].str.startswith(_STEP)], "process"
        durations = (table["end_time_us"] - table["start_time_us"]).groupby(table[column])
        statistics = {"mean": durations.mean(), "min": durations.min(), "max": durations.max()}
        statistics |= {name: durations.quantile(share) for name, share in _PERCENTILES.items()}
        named = {f"duration_{name}": values for name, values in statistics.items()}
        return self._pandas.DataFrame(named).rename_axis(by.value).reset_index()

    def get_utilization_stats(
        self,
        resource: Resource | Sequence[Resource] | None = None,
        by: StatsBy | None = None,
        phase: Sequence[str] | None = None,
    ) -> Any:
        """Return the utilization of each type of device and node: ``min, max, p50, p95, p99`` and ``mean``.

        Args:
            resource: Only these; None for all.
            by: ``StatsBy.TRAINING_PHASE``: one row for each mode of the steps as well, of the samples within them.
            phase: Only these modes, such as ``Step:ModeKeys.TRAIN``; None for all.
        Returns:
            None: ``by`` or a resource is not one of these.
        """
        resources = [resource] if isinstance(resource, Resource) else list(resource or Resource)
        if by not in (None, StatsBy.TRAINING_PHASE) or not all(isinstance(one, Resource) for one in resources):
            return None
        table = self.sys_metrics_df
        table = table[table["type"].isin([one.value for one in resources])]
        keys = ["type", "dimension", "nodeID"]
        if by is None:
            return self._utilization(table, keys)
        parts = []
        for name, intervals in self._intervals(phase).items():
            part = table[self._is_within(table["timestamp_us"], intervals)]
            parts.append(part.assign(training_phase=name))
        joined = self._pandas.concat(parts) if parts else table.iloc[:0].assign(training_phase="")
        return self._utilization(joined, ["training_phase", *keys])

    def get_device_usage_stats(
        self,
        device: Resource | Sequence[Resource] | None = None,
        utilization_ranges: Sequence[tuple[float, float]] | None = None,
    ) -> Any:
        """Return how many samples of each device and node lie in ranges of utilization: a column for each range.

        Args:
            device: Only these; None for CPU and GPU.
            utilization_ranges: Percent; the lower end belongs to a range, and of 100 the upper too.
        """
        devices = [device] if isinstance(device, Resource) else list(device or (Resource.CPU, Resource.GPU))
        table = self.sys_metrics_df
        table = table[table["type"].isin([one.value for one in devices])]
        groups = [table["type"], table["nodeID"]]
        counts = {}
        for low, high in utilization_ranges or _RANGES:
            is_within = (table["value"] >= low) & (table["value"] < high)
            if high == 100:
                is_within |= table["value"] == high
            counts[low, high] = is_within.groupby(groups).sum()
        return self._pandas.DataFrame({str(bounds): count for bounds, count in counts.items()}).reset_index()

    def get_training_phase_intervals(self, phase: Sequence[str] | str | None = None) -> Any:
        """Return the intervals in which steps of one mode follow one another: ``start_time_us, end_time_us, process``.

        Args:
            phase: Only these modes, such as ``Step:ModeKeys.TRAIN``; None for all.
        """
        rows = [
            (start, end, name)
            for name, intervals in self._intervals([phase] if isinstance(phase, str) else phase).items()
            for start, end in intervals
        ]
        return self._pandas.DataFrame(sorted(rows), columns=["start_time_us", "end_time_us", "process"])

    def _steps_of_loop(self) -> Any:
        table = self.framework_metrics_df
        return table[table["process"].isin(_LOOP)]

    def _intervals(self, phase: Sequence[str] | None) -> dict[str, list[tuple[float, float]]]:
        """Return the intervals of each mode; steps of another mode between two steps separate them."""
        table = self.framework_metrics_df
        steps = table[table["process"].str.startswith(_STEP)].sort_values("start_time_us")
        found: dict[str, list[tuple[float, float]]] = {}
        latest = None
        for name, start, end in zip(steps["process"], steps["start_time_us"], steps["end_time_us"], strict=True):
            known = found.setdefault(name, [])
            if name == latest:
                start, end = known[-1][0], max(known.pop()[1], end)
            known.append((start, end))
            latest = name
        return {name: known for name, known in found.items() if phase is None or name in phase}

    def _is_within(self, times: Any, intervals: Sequence[tuple[float, float]]) -> Any:
        within = self._pandas.Series(False, index=times.index)
        for start, end in intervals:
            within |= (times >= start) & (times <= end)
        return within

    def _utilization(self, table: Any, keys: list[str]) -> Any:
        values = table.groupby(keys)["value"]
        statistics = {"min": values.min(), "max": values.max(), "mean": values.mean()}
        statistics |= {name: values.quantile(share) for name, share in _PERCENTILES.items()}
        return self._pandas.DataFrame(statistics).reset_index()
