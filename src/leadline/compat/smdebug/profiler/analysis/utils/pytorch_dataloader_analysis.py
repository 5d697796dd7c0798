"""What the data loaders of PyTorch took, in smdebug's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from leadline.compat.smdebug.profiler.analysis.data_frames import import_pandas
from leadline.compat.smdebug.profiler.analysis.notebook_utils.timeline_charts import TimelineCharts
from leadline.compat.smdebug.profiler.analysis.utils.profiler_data_to_pandas import PandasFrame
from leadline.records.formatting import counted

_OUTLIER: Final = 2
"""An event is an outlier from this many times the median on."""
_TIMES: Final = ("start_time", "end_time", "duration_us")
_ITERATORS: Final = ("_MultiProcessingDataLoaderIter.__init__", "_SingleProcessDataLoaderIter.__init__")


class PT_dataloader_analysis:
    """Describes the iterators, worker processes and batches of data loaders; each function prints what it finds.

    Args:
        pandas_frame: The profiles.
    """

    def __init__(self, pandas_frame: PandasFrame) -> None:
        self.pd_data_frame = pandas_frame
        self.dataIter_metric = pandas_frame.get_all_dataloader_metrics([".*DataLoaderIter::GetNext"])
        self.initialize_metric = pandas_frame.get_all_dataloader_metrics(["DataLoaderIterInitialize"])
        self.dataWorker_metric = pandas_frame.get_all_dataloader_metrics(["DataLoaderWorker"])

    def analyze_dataloaderIter_initialization(self) -> Any:
        """Describe how the iterators are configured; return those that took long to make, or None."""
        found = [self._iterators(kind) for kind in _ITERATORS]
        tables = [table for table in found if table is not None]
        return import_pandas().concat(tables).reset_index(drop=True) if tables else None

    def analyze_dataloaderWorkers(self) -> Any:
        """Describe the worker processes; return those that lived long, or None."""
        return _outliers("worker process", "worker processes", self.dataWorker_metric, (*_TIMES, "worker_id"))

    def analyze_dataloader_getnext(self) -> Any:
        """Describe the waiting for batches; return the batches that were waited for long, or None."""
        return _outliers("call of GetNext", "calls of GetNext", self.dataIter_metric, (*_TIMES, "worker_id"))

    def analyze_batchtime(self) -> Any:
        """Describe the time from one batch to the next; return the batches that took long, or None."""
        if self.dataIter_metric.empty:
            _say("There is no call of GetNext.")
            return None
        table = self.dataIter_metric.sort_values(["node_id", "pid", "end_time_us"])
        of_process = table.groupby(["node_id", "pid"])
        seconds = of_process["start_time_us"].diff() / 1e6
        table = table.assign(BatchTime_in_seconds=seconds, previous_batch_start=of_process["start_time"].shift())
        median = seconds.median()
        _say(f"Median time of a batch: {median:.6g} s.")
        slow = table[table["BatchTime_in_seconds"] >= _OUTLIER * median]
        columns = ["previous_batch_start", "start_time", "BatchTime_in_seconds", "worker_id"]
        return _sorted(slow[columns], "BatchTime_in_seconds")

    def plot_the_window(
        self,
        start_timestamp: float,
        end_timestamp: float,
        select_events: Sequence[str] = (".*",),
        select_dimensions: Sequence[str] = (".*",),
    ) -> TimelineCharts:
        """Draw the timeline and the system metrics of an interval; see ``TimelineCharts``."""
        return TimelineCharts(
            self.pd_data_frame.system_metrics_reader,
            self.pd_data_frame.framework_metrics_reader,
            starttime=start_timestamp,
            endtime=end_timestamp,
            select_events=list(select_events),
            select_dimensions=list(select_dimensions),
        )

    def _iterators(self, kind: str) -> Any:
        table = self.initialize_metric[self.initialize_metric["framework_metric"] == kind]
        if not table.empty:
            first = table.iloc[0]
            _say(f"{kind}: num_workers {first['num_workers']}, pin_memory {first['pin_memory']}.")
        return _outliers(f"call of {kind}", f"calls of {kind}", table, _TIMES)


def _outliers(one: str, many: str, table: Any, columns: Sequence[str]) -> Any:
    if table.empty:
        _say(f"There is no {one}.")
        return None
    median, longest = table["duration_us"].median(), table["duration_us"].max()
    _say(f"{counted(len(table), one, many)}: median {median / 1000:.6g} ms, longest {longest / 1000:.6g} ms.")
    return _sorted(table[table["duration_us"] >= _OUTLIER * median][list(columns)], "duration_us")


def _sorted(slow: Any, column: str) -> Any:
    """Return the rows in descending order; None if there are none."""
    if slow.empty:
        _say("None took twice the median.")
        return None
    return slow.sort_values(column, ascending=False).reset_index(drop=True)


def _say(line: str) -> None:
    print(line)  # noqa: T201 - a notebook shows it
