"""The configuration file of the profiler, ``profilerconfig.json``, and its profile windows."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.json_object import JsonObject
from leadline.records.profile_window import MAX_SECONDS, MAX_STEPS

CONFIG_PATH_ENV_STR: Final = "SMPROFILER_CONFIG_PATH"
DEFAULT_CONFIG_PATH: Final = "/opt/ml/input/config/profilerconfig.json"
_PARAMETERS: Final = "ProfilingParameters"
_OFF: Final = "DisableProfiler"
_INTERVALS: Final = ("ProfilingIntervalInMilliseconds", "ProfilingIntervalInMillis")

_WINDOWS: Final = {
    "DetailedProfilingConfig": ("detailed", 5, 1),
    "DataloaderProfilingConfig": ("dataloader", 7, 1),
    "PythonProfilingConfig": ("cprofile", 9, 3),
}
"""The kind of profile window, and Debugger's defaults of first step and number of steps."""
_START_TIME: Final = "StartTimeInSecSinceEpoch"
_TIMERS: Final = {
    "total_time": "total",
    "cpu_time": "cpu",
    "cpu": "cpu",
    "off_cpu_time": "off_cpu",
    "off_cpu": "off_cpu",
}
_PROFILERS: Final = ("cprofile", "pyinstrument")
_KEYS: Final = {
    key.lower(): key
    for key in (
        *("StartStep", "NumSteps", _START_TIME, "DurationInSeconds", "Duration"),
        *("ProfilerName", "cProfileTimer", "MetricsRegex"),
    )
}
"""The keys of a window's table, which smdebug compares without their case."""
_TABLES: Final = (*_WINDOWS, "HorovodProfilingConfig", "SMDataParallelProfilingConfig")
PARAMETERS: Final = (
    *_TABLES,
    *("LocalPath", "RotateMaxFileSizeInBytes", "RotateFileCloseIntervalInSeconds", "FileOpenFailThreshold"),
    *("CPUProfilingDuration", "SMPFileRotationSecs"),
)
"""The keys of ``ProfilingParameters``, in any case; the last two are those of SageMaker Profiler."""


@dataclass(frozen=True, slots=True)
class ProfilerSettings:
    """What a configuration file says of the profiler; without a file, nothing is profiled."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    """``ProfilingParameters``, by the names of SageMaker's documentation in any case."""
    interval_ms: int | None = None
    """The sampling interval of system metrics; None: not given."""

    @property
    def is_enabled(self) -> bool:
        """Whether anything but system metrics is recorded."""
        return bool(self.parameters)

    def parameter(self, name: str, default: Any = None) -> Any:
        """Return a parameter; names are compared without their case."""
        return next((value for key, value in self.parameters.items() if key.lower() == name.lower()), default)

    def windows(self) -> list[str]:
        """Return the profile windows, in the syntax of ``--profile``.

        Raises:
            ConfigurationError: One is no table, or has a value that is not allowed.
        """
        named = {key: self.parameter(key) for key in _WINDOWS}
        return list(profile_windows({key: text for key, text in named.items() if text is not None}))


def config_path() -> str:
    """Return the path of the configuration file: ``$SMPROFILER_CONFIG_PATH``, or that of SageMaker's container."""
    return os.environ.get(CONFIG_PATH_ENV_STR) or DEFAULT_CONFIG_PATH


def read_profiler_settings() -> ProfilerSettings:
    """Read the configuration file of the profiler; without one, or if it disables the profiler, nothing is profiled.

    Raises:
        ConfigurationError: It cannot be read, or a value in it is not allowed.
    """
    path = config_path()
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except FileNotFoundError:
        return ProfilerSettings()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path}: an object is expected, not {type(document).__name__}")
    given = {key.lower(): value for key, value in document.items()}
    if str(given.get(_OFF.lower(), False)).lower() == "true":
        return ProfilerSettings()
    parameters = given.get(_PARAMETERS.lower()) or {}
    if not isinstance(parameters, dict):
        raise ConfigurationError(f"{path}: {_PARAMETERS} must be an object, not {type(parameters).__name__}")
    interval = next((given[key.lower()] for key in _INTERVALS if key.lower() in given), None)
    try:
        return ProfilerSettings(parameters, None if interval is None else int(interval))
    except (TypeError, ValueError):
        raise ConfigurationError(f"{path}: {_INTERVALS[0]} must be a number, not {interval!r}") from None


def profile_windows(parameters: Mapping[str, str]) -> Iterator[str]:
    """Yield the profile windows of ProfilingParameters, in the syntax of ``--profile``.

    Raises:
        ConfigurationError: A configuration of profiling is no table, or has a value that is not allowed.
    """
    texts = {key.lower(): text for key, text in parameters.items()}
    for key, (kind, step, count) in _WINDOWS.items():
        if key.lower() in texts:
            given = _literal(key, texts[key.lower()])
            name = "pyinstrument" if str(given.get("ProfilerName", "")).lower() == "pyinstrument" else kind
            timer = _TIMERS.get(str(given.get("cProfileTimer", "")).lower()) if name == "cprofile" else None
            keys = [f"at={_begin(given, step)}", f"for={_length(given, count)}", *([f"timer={timer}"] if timer else [])]
            yield f"{name}:{','.join(keys)}"


def check_table(key: str, text: str) -> None:
    """Check the value of a key of ``ProfilingParameters``, if it is a table.

    Raises:
        ConfigurationError: A key or value of the table is none that Debugger knows.
    """
    if key.lower() not in (name.lower() for name in _TABLES):
        return
    given = _literal(key, text)
    allowed = {"ProfilerName": _PROFILERS, "cProfileTimer": (*_TIMERS, "default")}
    for name, value in given.items():
        if name not in _KEYS.values():
            raise UnknownNameError(f"key of {key}", name, _KEYS.values())
        if name in allowed and str(value).lower() not in allowed[name]:
            raise ConfigurationError(f"{name} must be one of {', '.join(allowed[name])}, not {value!r}")


def _begin(given: Mapping[str, Any], step: int) -> str:
    if _START_TIME not in given or "StartStep" in given:
        return str(_whole("StartStep", given.get("StartStep", step), least=0))
    try:
        return datetime.fromtimestamp(float(given[_START_TIME]), UTC).isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        raise ConfigurationError(f"{_START_TIME} must be a time in seconds, not {given[_START_TIME]!r}") from None


def _length(given: Mapping[str, Any], count: int) -> str:
    """Return the length; SDK v2 writes ``Duration`` where the guide has ``DurationInSeconds``."""
    seconds = given.get("DurationInSeconds", given.get("Duration"))
    if seconds is None or "NumSteps" in given:
        return str(_whole("NumSteps", given.get("NumSteps", count), least=1, most=MAX_STEPS))
    try:
        is_valid = 0 < float(seconds) <= MAX_SECONDS
    except (TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise ConfigurationError(f"DurationInSeconds must be above 0, and at most {MAX_SECONDS:g}, not {seconds!r}")
    return f"{float(seconds):f}".rstrip("0").rstrip(".") + "s"


def _whole(key: str, value: Any, *, least: int, most: int | None = None) -> int:
    number = int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else -1
    if number < least or (most is not None and number > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ConfigurationError(f"{key} must be a whole number {bounds}, not {value!r}")
    return number


def _literal(key: str, text: str) -> JsonObject:
    """Parse a table as SDK v2 writes it: with a comma behind the last item."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ConfigurationError(f"ProfilingParameters.{key} is not a table: {text!r}")
    return {_KEYS.get(str(key).lower(), str(key)): entry for key, entry in value.items()}
