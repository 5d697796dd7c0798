"""Logs of trackers that write folders: TensorBoard's event files, MLflow's runs."""

from __future__ import annotations

import os
import re
import sqlite3
import urllib.parse
from collections.abc import Iterable
from contextlib import closing
from typing import Final

from leadline.formats.event_file import read_scalars
from leadline.logs.training_log import LoggedRow, TrainingLog
from leadline.records.json_object import JsonObject

_EVENTS: Final = re.compile(r"(^|\.)tfevents\.")
_MAX_SETTINGS: Final = 64


def is_event_file(name: str) -> bool:
    """Return whether a file has the name of one of TensorBoard's event files."""
    return _EVENTS.search(name) is not None


def event_log(paths: Iterable[str]) -> TrainingLog:
    """Return the scalars of event files; one that is still written is read as far as it goes.

    Names of several folders, as ``add_scalars`` writes them, begin with the folder's.
    """
    log, at_steps = TrainingLog("event files of TensorBoard"), dict[int, dict[str, float]]()
    times: dict[int, int] = {}
    for path in sorted(paths):
        with open(path, "rb") as file:
            data = file.read()
        try:
            for name, step, time_ns, value in read_scalars(data):
                at_steps.setdefault(step, {})[name] = value
                times.setdefault(step, time_ns)
        except ValueError as error:
            log.damage.append(f"{os.path.basename(path)} is read up to a damaged place: {error}")
    log.rows = [LoggedRow(at_steps[step], step, times[step]) for step in sorted(at_steps)]
    return log


def mlflow_log(folder: str) -> TrainingLog:
    """Return the metrics of a run in MLflow's file store: a file per metric, ``time value step`` a line."""
    log, points = TrainingLog("a run of MLflow"), list[tuple[str, int, float, int]]()
    root = os.path.join(folder, "metrics")
    for place, _, names in os.walk(root):
        for name in names:
            metric, damaged = os.path.relpath(os.path.join(place, name), root), 0
            with open(os.path.join(place, name), encoding="utf-8", errors="replace") as file:
                for line in file:
                    try:
                        moment, value, step = line.split()[:3]
                        points.append((metric, int(step), float(value), int(moment)))
                    except ValueError:
                        damaged += 1
            if damaged:
                log.damage.append(f"{metric}: {damaged:,} lines are no values, and were left out")
    log.rows = _rows(points)
    log.hyperparameters = _parameters(os.path.join(folder, "params"))
    return log


def mlflow_database_log(path: str) -> TrainingLog:
    """Return the metrics of the latest run in a database of MLflow (SQLite), which is only read.

    Raises:
        ValueError: It is no such database, or holds no run.
    """
    try:
        with closing(sqlite3.connect(f"file:{urllib.parse.quote(path)}?mode=ro", uri=True)) as database:
            found = database.execute("SELECT run_uuid, name FROM runs ORDER BY start_time DESC LIMIT 1").fetchone()
            if found is None:
                raise ValueError("it holds no run")
            query = "SELECT key, step, value, timestamp FROM metrics WHERE run_uuid = ? AND NOT is_nan"
            points = list(database.execute(query, (found[0],)))
            nans = database.execute(
                "SELECT key, step, timestamp FROM metrics WHERE run_uuid = ? AND is_nan", (found[0],)
            )
            points += [(key, step, float("nan"), moment) for key, step, moment in nans]
            settings = dict(database.execute("SELECT key, value FROM params WHERE run_uuid = ?", (found[0],)))
    except sqlite3.DatabaseError as error:
        raise ValueError(f"it is no database of MLflow: {error}") from None
    log = TrainingLog(f"a run of MLflow ({found[1] or found[0]})")
    log.rows = _rows(points)
    log.hyperparameters = dict(list(settings.items())[:_MAX_SETTINGS])
    return log


def _rows(points: Iterable[tuple[str, int, float, int]]) -> list[LoggedRow]:
    """Return rows by step from single values with their times in milliseconds."""
    at_steps, times = dict[int, dict[str, float]](), dict[int, int]()
    for name, step, value, moment in sorted(points, key=lambda point: point[3]):
        at_steps.setdefault(step, {})[name] = value
        times.setdefault(step, moment * 1_000_000)
    return [LoggedRow(at_steps[step], step, times[step]) for step in sorted(at_steps)]


def _parameters(folder: str) -> JsonObject:
    found: JsonObject = {}
    for name in sorted(os.listdir(folder))[:_MAX_SETTINGS] if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                found[name] = file.read(200).strip()
    return found
