"""The log at a path: which format it has, and where it is in a folder."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Final

from leadline.errors import ConfigurationError
from leadline.logs.folders import event_log, is_event_file, mlflow_database_log, mlflow_log
from leadline.logs.records import log_of_text, read_text
from leadline.logs.training_log import TrainingLog
from leadline.logs.wandb_offline import wandb_log

KNOWN: Final = (
    "trainer_state.json of Transformers, event files of TensorBoard, metrics.csv of Lightning and other tables, "
    ".wandb files of W&B, mlruns and mlflow.db of MLflow, Keras's history as JSON, lines of JSON, "
    "printed text with lines like 'step 10 loss 2.31'"
)
"""What ``read_log`` reads."""
_TRAINER_STATE: Final = "trainer_state.json"
_MAX_FILES: Final = 20_000
_MAX_SHOWN: Final = 5
_NUMBER: Final = re.compile(r"(\d+)$")
_SQLITE: Final = b"SQLite format 3\0"


def read_log(path: str) -> TrainingLog:
    """Return the log at a path: a file, a folder that holds one, or ``-`` for standard input.

    Of several runs in a folder, the latest is read.

    Raises:
        ConfigurationError: There is none, with what was found instead.
        OSError: It cannot be read.
    """
    if path == "-":
        return _checked(path, log_of_text(sys.stdin.read()))
    if os.path.isdir(path):
        return _of_folder(path)
    if not os.path.exists(path):
        raise ConfigurationError(f"{path}: no such file or folder; a log is one of: {KNOWN}")
    return _of_file(path)


def _of_file(path: str) -> TrainingLog:
    name = os.path.basename(path)
    try:
        if name.endswith(".wandb"):
            return _checked(path, wandb_log(_read(path)))
        if is_event_file(name):
            return _checked(path, event_log([path]))
        with open(path, "rb") as file:
            begin = file.read(4096)
        if begin.startswith(_SQLITE):
            return _checked(path, mlflow_database_log(path))
    except ValueError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    if b"\0" in begin:
        raise ConfigurationError(f"{path}: no log: it holds bytes that are no text; a log is one of: {KNOWN}")
    return _checked(path, log_of_text(read_text(path), name))


def _of_folder(folder: str) -> TrainingLog:
    files = list(_files(folder))
    for find in (_trainer_state, _wandb_file, _mlflow_run, _table, _database, _events):
        log = find(files)
        if log is not None:
            return log
    names = sorted(os.listdir(folder))
    shown = ", ".join(names[:_MAX_SHOWN]) + (
        f" and {len(names) - _MAX_SHOWN:,} more" if len(names) > _MAX_SHOWN else ""
    )
    raise ConfigurationError(f"{folder}: no log in it (it holds {shown or 'nothing'}); a log is one of: {KNOWN}")


def _files(folder: str) -> Iterator[str]:
    """Yield the files below a folder, up to a limit; links to folders are not followed."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield os.path.join(place, name)
            count += 1
            if count >= _MAX_FILES:
                return


def _latest(paths: list[str], read: Callable[[str], TrainingLog], what: str) -> TrainingLog | None:
    """Return the log of the file that was written last; of several, a line says which it is."""
    if not paths:
        return None
    path = max(paths, key=os.path.getmtime)
    log = read(path)
    if len(paths) > 1:
        log.damage.insert(0, f"{len(paths):,} {what} are there: the latest is read, {path}")
    return log


def _trainer_state(files: list[str]) -> TrainingLog | None:
    """Return the state beside the model, or else that of the latest checkpoint: each holds all before."""
    states = [path for path in files if os.path.basename(path) == _TRAINER_STATE]
    return _of_file(max(states, key=lambda path: (-path.count(os.sep), _checkpoint(path)))) if states else None


def _checkpoint(path: str) -> int:
    found = _NUMBER.search(os.path.dirname(path))
    return int(found[1]) if found else 0


def _wandb_file(files: list[str]) -> TrainingLog | None:
    return _latest([path for path in files if path.endswith(".wandb")], _of_file, "runs of W&B")


def _mlflow_run(files: list[str]) -> TrainingLog | None:
    marker = f"{os.sep}metrics{os.sep}"
    runs = {path[: path.rindex(marker)] for path in files if marker in path}
    found = [run for run in sorted(runs) if os.path.isfile(os.path.join(run, "meta.yaml"))]
    return _latest(found, lambda run: _checked(run, mlflow_log(run)), "runs of MLflow")


def _table(files: list[str]) -> TrainingLog | None:
    return _latest([path for path in files if os.path.basename(path) == "metrics.csv"], _of_file, "tables")


def _database(files: list[str]) -> TrainingLog | None:
    return _latest([path for path in files if os.path.basename(path) == "mlflow.db"], _of_file, "databases")


def _events(files: list[str]) -> TrainingLog | None:
    folders = sorted({os.path.dirname(path) for path in files if is_event_file(os.path.basename(path))})

    def read(folder: str) -> TrainingLog:
        paths = [os.path.join(folder, name) for name in os.listdir(folder) if is_event_file(name)]
        return _checked(folder, event_log(paths))

    return _latest(folders, read, "folders of event files")


def _checked(path: str, log: TrainingLog | None) -> TrainingLog:
    if log is None or not log.rows:
        why = f"; {log.damage[0]}" if log is not None and log.damage else ""
        raise ConfigurationError(
            f"{'standard input' if path == '-' else path}: no numbers with names in it{why}; a log is one of: {KNOWN}"
        )
    return log


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
