"""The configuration of the profiler, in smdebug's interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from leadline.compat.smdebug.core.logger import get_logger
from leadline.compat.smdebug.profiler_settings import ProfilerSettings, read_profiler_settings
from leadline.errors import ConfigurationError

BASE_FOLDER_DEFAULT: Final = "/opt/ml/output/profiler"
MAX_FILE_SIZE_DEFAULT: Final = 10_485_760
CLOSE_FILE_INTERVAL_DEFAULT: Final = 60.0
FILE_OPEN_FAIL_THRESHOLD_DEFAULT: Final = 50
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RotationPolicy:
    """When a trace file is closed, and the next one begins."""

    file_max_size: int
    """Bytes."""
    file_close_interval: float
    """Seconds since the last one was closed."""


@dataclass(frozen=True, slots=True)
class TraceFile:
    """How trace files are written."""

    rotation_policy: RotationPolicy
    file_open_fail_threshold: int
    """After so many failures to open a file, no more events are written."""


@dataclass(frozen=True, slots=True)
class ProfilerConfig:
    """What ``profilerconfig.json`` says of trace files."""

    local_path: str
    """The folder of the profiler's files."""
    trace_file: TraceFile


class ProfilerConfigParser:
    """Reads ``$SMPROFILER_CONFIG_PATH``, or ``profilerconfig.json`` of SageMaker's container.

    The profile windows in it are those of the hook's run, or of ``leadline run --smdebug``.

    Args:
        framework: Changes nothing.

    Attributes:
        profiling_enabled: Whether the file is there and requests more than system metrics.
        config: What it says of trace files; None: the profiler is disabled.
    """

    def __init__(self, framework: object = None) -> None:
        self.profiling_enabled = False
        self.config: ProfilerConfig | None = None
        self.load_config()

    def load_config(self) -> None:
        """Read the file again; one that cannot be read disables the profiler, and is logged."""
        try:
            settings = read_profiler_settings()
        except ConfigurationError as error:
            get_logger().error("the profiler is disabled: %s", error)
            settings = ProfilerSettings()
        self.profiling_enabled = settings.is_enabled
        self.config = _config(settings) if settings.is_enabled else None


def _config(settings: ProfilerSettings) -> ProfilerConfig:
    def number(name: str, kind: Callable[[float], T], default: T) -> T:
        given = settings.parameter(name)
        try:
            return default if given is None else kind(float(given))
        except (TypeError, ValueError, OverflowError):
            get_logger().error("%s must be a number, not %r; it is %s", name, given, default)
            return default

    return ProfilerConfig(
        str(settings.parameter("LocalPath", BASE_FOLDER_DEFAULT)),
        TraceFile(
            RotationPolicy(
                number("RotateMaxFileSizeInBytes", int, MAX_FILE_SIZE_DEFAULT),
                number("RotateFileCloseIntervalInSeconds", float, CLOSE_FILE_INTERVAL_DEFAULT),
            ),
            number("FileOpenFailThreshold", int, FILE_OPEN_FAIL_THRESHOLD_DEFAULT),
        ),
    )


def get_profiler_config_parser(framework: object = None) -> ProfilerConfigParser:
    """Return the configuration of the profiler."""
    return ProfilerConfigParser(framework)
