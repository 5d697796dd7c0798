"""Names of the files that smdebug's profiler writes, as scripts import them."""

from __future__ import annotations

from typing import Final

DEFAULT_PREFIX: Final = "framework/pevents"
DEFAULT_SYSTEM_PROFILER_PREFIX: Final = "system"
PYTHONTIMELINE_SUFFIX: Final = "pythontimeline.json"
MODELTIMELINE_SUFFIX: Final = "model_timeline.json"
HOROVODTIMELINE_SUFFIX: Final = "horovod_timeline.json"
SMDATAPARALLELTIMELINE_SUFFIX: Final = "smdataparallel_timeline.json"
MERGEDTIMELINE_SUFFIX: Final = "merged_timeline.json"
CONVERT_TO_MICROSECS: Final = 1_000_000
TRACE_DIRECTORY_FORMAT: Final = "%Y%m%d%H"
"""The folders of trace files: the hour in UTC of the last event."""
CPROFILE_NAME: Final = "cprofile"
PYINSTRUMENT_NAME: Final = "pyinstrument"
CPROFILE_STATS_FILENAME: Final = "python_stats"
PYINSTRUMENT_JSON_FILENAME: Final = "python_stats.json"
PYINSTRUMENT_HTML_FILENAME: Final = "python_stats.html"
