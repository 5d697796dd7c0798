"""Logs that are records of names and numbers: JSON, CSV, text."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from leadline.formats.named_numbers import NamedNumber, named_numbers
from leadline.logs.training_log import LoggedRow, TrainingLog, number, numbered
from leadline.records.json_object import JsonObject
from leadline.records.metric_names import kind_of
from leadline.records.metric_roles import KNOWN

_SETTINGS: Final = ("train_batch_size", "num_train_epochs", "max_steps", "logging_steps", "eval_steps", "save_steps")
_SETTINGS_IN_TEXT: Final = frozenset({"lr", "learning_rate", "grad_norm", "gradient_norm", "grad norm", "gnorm"})
_DELIMITERS: Final = ",;\t"
_LINE_COUNT: Final = re.compile(
    r"(?<![A-Za-z_])(global[_ ]step|step|steps|iteration|iter|it|epoch)s?\b[\s:=#\[(]*(\d[\d,]*)", re.IGNORECASE
)
_PAIRS: Final = re.compile(r"\bstep:(\d+) - (\S+:.+)$")
_PAIR: Final = re.compile(r"(?:^| - )([^\s:]+):(?:np\.\w+\()?([^\s)]+)\)?(?= - |$)")
_DICT: Final = re.compile(r"\{[^{}]*\}")
_DICT_ENTRY: Final = re.compile(r"""['"]([^'"]{1,100})['"]\s*:\s*['"]?(-?(?:\d[\d.eE+-]*|nan|inf|NaN|Infinity))['"]?""")


def trainer_state(document: Mapping[str, Any]) -> TrainingLog:
    """Return the log in ``trainer_state.json`` of Transformers' Trainer and of what is built on it.

    Source:
        transformers.TrainerState: ``log_history``.
    """
    entries = [entry for entry in document["log_history"] if isinstance(entry, dict)]
    end = next((at for at, entry in enumerate(entries) if "train_runtime" in entry), len(entries))
    history, later = entries[:end], entries[end + 1 :]  # between them are the means over all
    names = {name for entry in history for name in entry if name.startswith("eval_")}
    history += [entry for entry in later if names.isdisjoint(entry)]  # else of the best model, loaded at the end
    log = numbered("the state of a Trainer (Transformers)", history)
    log.hyperparameters = {name: document[name] for name in _SETTINGS if document.get(name) is not None}
    planned = document.get("max_steps")
    log.planned_steps = planned if isinstance(planned, int) and planned > 0 and log.unit == "step" else None
    return log


def keras_history(document: Mapping[str, Any]) -> TrainingLog:
    """Return the log in ``History.history`` of Keras: a list of values for each name, one value an epoch."""
    longest = max(len(values) for values in document.values())
    records: list[JsonObject] = [{} for _ in range(longest)]
    for name, values in document.items():
        for epoch, value in enumerate(values):
            records[epoch][name] = value
    rows = [
        LoggedRow({name: found for name, value in record.items() if (found := number(value)) is not None}, epoch)
        for epoch, record in enumerate(records)
    ]
    return TrainingLog("the history of Keras", rows, "epoch")


def json_log(text: str) -> TrainingLog | None:
    """Return the log in a JSON document, or in lines of JSON; None: it is no log."""
    try:
        document = json.loads(text)
    except ValueError:
        return _json_lines(text)
    if isinstance(document, dict):
        if isinstance(document.get("log_history"), list):
            return trainer_state(document)
        document = document.get("history", document)
    if isinstance(document, dict):
        lists = {name: values for name, values in document.items() if isinstance(values, list) and values}
        if lists and all(number(value) is not None for values in lists.values() for value in values[:1]):
            return keras_history(lists)
        return None
    if isinstance(document, list) and any(isinstance(entry, dict) for entry in document):
        return numbered("JSON records", [entry for entry in document if isinstance(entry, dict)])
    return None


def _json_lines(text: str) -> TrainingLog | None:
    records, damaged = [], 0
    for line in text.splitlines():
        if line.strip():
            try:
                record = json.loads(line)
            except ValueError:
                damaged += 1
                continue
            if isinstance(record, dict):
                inner = record.pop("data", {})  # verl writes {"step": 1, "data": {…}}
                records.append({**record, **inner} if isinstance(inner, dict) else record)
    if not records or damaged > len(records):
        return None
    log = numbered("lines of JSON", records)
    if damaged:
        log.damage.append(f"{damaged:,} of {damaged + len(records):,} lines are no JSON, and were left out")
    return log


def csv_log(text: str) -> TrainingLog | None:
    """Return the log in a table with a line of names; None: it is none."""
    first = text.lstrip("\ufeff").partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    names = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
    if len(names) < 2 or any(number(name) is not None for name in names) or len(set(names)) < len(names):
        return None
    reader = csv.DictReader(io.StringIO(text.lstrip("\ufeff")), names, delimiter=delimiter)
    next(reader)
    records, short = [], 0
    for record in reader:
        short += None in record.values()
        records.append({name: value for name, value in record.items() if name and value})
    if not any(number(value) is not None for record in records[:50] for value in record.values()):
        return None
    log = numbered("a table (CSV)", records)
    if short:
        log.damage.append(f"{short:,} of {len(records):,} lines have fewer columns than the first")
    return log


def text_log(lines: Iterator[str] | Sequence[str]) -> TrainingLog | None:
    """Return the log in printed text: numbers with names, in lines that may name a step or an epoch; None: it has none.

    Also dictionaries as Transformers prints them, ``{'loss': 2.31, 'epoch': 0.5}``, and lines as verl does,
    ``step:3 - actor/entropy:0.7``.
    """
    records = [record for line in lines if (record := _record_of(line))]
    counts = Counter(name for record in records for name in record)
    if not any(count > 1 for name, count in counts.items() if kind_of(name) == "metric" or name in KNOWN):
        return None
    return numbered("printed text", records)


def _record_of(line: str) -> JsonObject:
    found = _DICT.search(line)
    entries = dict(_DICT_ENTRY.findall(found[0])) if found else {}
    if entries:
        return entries
    pairs = _PAIRS.search(line)
    if pairs:
        return {"step": pairs[1], **dict(_PAIR.findall(pairs[2]))}
    record: JsonObject = {
        found.name: found.value for found in named_numbers(line) if found.is_clear and _is_kept(found)
    }
    if record:
        for name, count in _LINE_COUNT.findall(line):
            record.setdefault(name.lower().replace(" ", "_").removesuffix("s"), count.replace(",", ""))
    return record


def _is_kept(found: NamedNumber) -> bool:
    """Return whether a number of a text is a metric, or one whose name is known: texts hold many others."""
    return kind_of(found.name) == "metric" or found.name in KNOWN or found.name.lower() in _SETTINGS_IN_TEXT


def read_text(path: str) -> str:
    """Return the content of a text file; bytes that are no text are replaced.

    Raises:
        OSError: It cannot be read.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def log_of_text(text: str, name: str = "") -> TrainingLog | None:
    """Return the log in a text, by its content; None: it has none.

    Args:
        name: The name of the file, whose extension decides what is tried first.
    """
    is_table = os.path.splitext(name)[1].lower() in (".csv", ".tsv")
    if not is_table and text.lstrip()[:1] in ("{", "[") and (log := json_log(text)) is not None and log.rows:
        return log
    tried = (csv_log, lambda given: text_log(given.splitlines()))
    for read in tried:
        log = read(text)
        if log is not None and log.rows:
            return log
    return None
