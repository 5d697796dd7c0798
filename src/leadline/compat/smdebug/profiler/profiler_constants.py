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
