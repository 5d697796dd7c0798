"""What a script prints or writes to tables: standard streams, ``logging``, ``tqdm``, ``rich``, ``csv`` and ``json``.

Nothing is altered or delayed: functions of the script's own process are read after they have done their work, and only
where the script itself calls them, or through a library that only passes text on.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import FrameType, ModuleType
from typing import Any, Final, Literal

from leadline.formats.named_numbers import MAX_CHARACTERS
from leadline.frameworks.loggers.interceptor import Interceptor, LoggingLibrary
from leadline.frameworks.loggers.printed_values import PrintedValues
from leadline.frameworks.patches import MakeReplacement
from leadline.records.metric_names import kind_of

_PACKAGE: Final = __file__.removesuffix(os.path.join("frameworks", "loggers", "printed.py"))
_STANDARD: Final = os.path.join(os.path.dirname(os.__file__), "")
_PASSING_ON: Final = ("rich", "tqdm", "click", "typer", "loguru", "accelerate", "absl", "structlog", "colorama")
"""Libraries that print what they are given."""
_PASSING_ON_STANDARD: Final = ("contextlib.py", "csv.py", "pprint.py", "functools.py", "codecs.py")
_MAX_FRAMES: Final = 24
_MAX_KEYS: Final = 64
_MAX_TABLES: Final = 16
_VALUE_TITLES: Final = frozenset({"value", "result", "score"})

Origin = Literal["script", "library", "leadline", "passes on"]


@lru_cache(maxsize=1024)
def _origin(file: str) -> Origin:
    """Return whose code a file has."""
    if file.startswith(_PACKAGE):
        return "leadline"
    for packages in ("site-packages", "dist-packages"):
        _, found, inside = file.partition(f"{os.sep}{packages}{os.sep}")
        if found:
            return "passes on" if inside.partition(os.sep)[0] in _PASSING_ON else "library"
    if file.startswith(_STANDARD):
        return "passes on" if file.removeprefix(_STANDARD) in _PASSING_ON_STANDARD else "library"
    return "library" if file.startswith("<frozen") else "script"


def _caller(frame: FrameType | None) -> Origin:
    """Return whose code calls a function, beyond libraries that pass on what they are given."""
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        origin = _origin(frame.f_code.co_filename)
        if origin != "passes on":
            return origin
        frame = frame.f_back
    return "library"


# --- text ----------------------------------------------------------------------------------------------------


class _Line(threading.local):
    text: str = ""
    """What a thread has written since the last end of a line."""


def _streams(module: ModuleType, interceptor: Interceptor) -> None:
    """Read the lines that are written to standard output and standard error, also by ``print``."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "__dict__") and "write" not in vars(stream):
            interceptor.replace(stream, "write", _reading_lines(interceptor))


def _reading_lines(interceptor: Interceptor) -> MakeReplacement:
    line = _Line()

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def write(text: Any, *rest: Any, **others: Any) -> Any:
            result = original(text, *rest, **others)
            if type(text) is not str:
                return result
            if "\n" in text:
                written = line.text + text[: 2 * MAX_CHARACTERS]
                line.text = text.rpartition("\n")[2][:MAX_CHARACTERS]
                interceptor.guard.run(_read_written, interceptor, written, sys._getframe().f_back)
            elif len(line.text) < MAX_CHARACTERS:
                line.text += text[:MAX_CHARACTERS]
            elif "\r" in text:
                line.text = ""
            return result

        return write

    return wrap


def _read_written(interceptor: Interceptor, text: str, frame: FrameType | None) -> None:
    """Read what was written at the end of a line, if the script has written it."""
    origin = _caller(frame)
    if origin == "script" or (origin == "library" and _has_patterns(interceptor)):
        _read_lines(interceptor, text, origin == "script")


def _has_patterns(interceptor: Interceptor) -> bool:
    """Return whether the user's expressions apply to what libraries print, too."""
    return interceptor.printed is not None and interceptor.printed.has_patterns


def _read_lines(interceptor: Interceptor, text: str, is_of_script: bool) -> None:
    for line in text.split("\n")[:_MAX_KEYS]:
        last = line.rstrip("\r").rpartition("\r")[2]
        if last and not _is_progress(last):
            interceptor.read_printed(PrintedValues.read_line, last, is_of_script=is_of_script)


def _is_progress(line: str) -> bool:
    """Return whether a line is a progress bar, of which the numbers are read where the script gives them."""
    return "it/s" in line or "s/it" in line or "━" in line


def _logging(module: ModuleType, interceptor: Interceptor) -> None:
    """Read the messages of records as a handler has formatted them."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def handle(logger: Any, record: Any, *rest: Any, **others: Any) -> Any:
            result = original(logger, record, *rest, **others)
            interceptor.guard.run(_read_record, interceptor, record)
            return result

        return handle

    interceptor.replace(module.Logger, "handle", wrap)


def _read_record(interceptor: Interceptor, record: Any) -> None:
    message, origin = getattr(record, "message", None), _origin(str(getattr(record, "pathname", "")))
    is_of_script = origin in ("script", "passes on")
    if type(message) is str and (is_of_script or (origin == "library" and _has_patterns(interceptor))):
        _read_lines(interceptor, message, is_of_script)


# --- progress bars and tables --------------------------------------------------------------------------------


def _after_script(interceptor: Interceptor, read: Callable[..., Mapping[str, Any] | str]) -> MakeReplacement:
    """Read what the script passes to a function, after the function has returned."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def reading(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if _caller(sys._getframe().f_back) == "script":
                interceptor.guard.run(_read_given, interceptor, read, args, kwargs)
            return result

        return reading

    return wrap


def _read_given(
    interceptor: Interceptor,
    read: Callable[..., Mapping[str, Any] | str],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> None:
    given = read(*args, **kwargs)
    if isinstance(given, str):
        interceptor.read_printed(PrintedValues.read_line, given)
    elif given:
        only_metrics = read is not _postfix
        interceptor.read_printed(PrintedValues.read_values, _numbers(interceptor, given), only_metrics=only_metrics)


def _numbers(interceptor: Interceptor, values: Mapping[Any, Any]) -> dict[str, object]:
    named = {name: value for name, value in values.items() if type(name) is str and not isinstance(value, bool)}
    texts = {name: value for name, value in named.items() if type(value) is str}
    return texts | interceptor.scalars({name: value for name, value in named.items() if name not in texts})


def _postfix(bar: Any, ordered_dict: Any = None, refresh: Any = True, **others: Any) -> dict[str, object]:
    return {**(ordered_dict if isinstance(ordered_dict, Mapping) else {}), **others}


def _description(bar: Any, text: Any = None, *rest: Any, **others: Any) -> str:
    given = others.get("desc", others.get("s", text))
    return given if type(given) is str else ""


def _tqdm(module: ModuleType, interceptor: Interceptor) -> None:
    interceptor.replace(module.tqdm, "set_postfix", _after_script(interceptor, _postfix))
    for name in ("set_postfix_str", "set_description", "set_description_str"):
        interceptor.replace(module.tqdm, name, _after_script(interceptor, _description))


def _row(table: Any, *cells: Any, **others: Any) -> dict[str, object]:
    """Return the cells of a row by the titles of their columns, or by the first cell if the other one is a value."""
    titles = [column.header if type(column.header) is str else "" for column in table.columns]
    if len(titles) == 2 and titles[1].lower() in _VALUE_TITLES and len(cells) == 2 and type(cells[0]) is str:
        return {cells[0]: cells[1]}
    return dict(zip(titles, cells, strict=False))


def _rich(module: ModuleType, interceptor: Interceptor) -> None:
    interceptor.replace(module.Table, "add_row", _after_script(interceptor, _row))


# --- files ---------------------------------------------------------------------------------------------------


class _Rows:
    """A file of rows with titles: passes them on, and reads them.

    Args:
        titles: The titles that this process has written to each file.
    """

    def __init__(self, file: Any, interceptor: Interceptor, titles: dict[str, list[str]]) -> None:
        self._write, self._interceptor, self._all_titles = file.write, interceptor, titles
        self._name = str(getattr(file, "name", id(file)))
        self.dialect: Any = None

    def write(self, row: str) -> Any:
        result = self._write(row)
        self._interceptor.guard.run(self._read, row)
        return result

    def _read(self, row: str) -> None:
        titles = self._all_titles.get(self._name)
        if titles == [] or len(row) > MAX_CHARACTERS:
            return
        import csv

        cells = next(csv.reader([row], self.dialect), [])
        if titles is None:
            if len(self._all_titles) < _MAX_TABLES:
                self._all_titles[self._name] = cells if any(kind_of(cell) == "metric" for cell in cells) else []
        elif len(cells) == len(titles):
            values = dict(zip(titles, cells, strict=True))
            self._interceptor.read_printed(PrintedValues.read_values, values, only_metrics=True)


def _csv(module: ModuleType, interceptor: Interceptor) -> None:
    titles: dict[str, list[str]] = {}

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def writer(csvfile: Any, *args: Any, **kwargs: Any) -> Any:
            if not hasattr(csvfile, "write") or _caller(sys._getframe().f_back) != "script":
                return original(csvfile, *args, **kwargs)
            rows = _Rows(csvfile, interceptor, titles)
            made = original(rows, *args, **kwargs)
            rows.dialect = made.dialect
            return made

        return writer

    interceptor.replace(module, "writer", wrap)


def _object(values: Any = None, *rest: Any, **others: Any) -> dict[str, object]:
    return values if type(values) is dict and len(values) <= _MAX_KEYS else {}


def _json(module: ModuleType, interceptor: Interceptor) -> None:
    for name in ("dump", "dumps"):
        interceptor.replace(module, name, _after_script(interceptor, _object))


PRINTERS: Final = (
    LoggingLibrary("print", {"sys": _streams}),
    LoggingLibrary("logging", {"logging": _logging}),
    LoggingLibrary("tqdm", {"tqdm.std": _tqdm}),
    LoggingLibrary("rich", {"rich.table": _rich}),
    LoggingLibrary("csv", {"csv": _csv}),
    LoggingLibrary("json", {"json": _json}),
)
