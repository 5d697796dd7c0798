"""``leadline tensors``: what a run captured."""

from __future__ import annotations

from typing import Annotated, Final, NotRequired, TypedDict

import pyarrow.compute as pc
import typer
from rich.text import Text

import leadline
from leadline.analysis.digest import Digest
from leadline.cli.arguments import RunArgument, complete_collection
from leadline.cli.console import complain, echo_json, number
from leadline.cli.table import cut, print_lines, table, table_width
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.reader.run import Run
from leadline.records.names import MODES
from leadline.records.patterns import pattern_error
from leadline.records.series import TensorInfo
from leadline.store.documents import to_json

_MIN_COLLECTIONS_WIDTH: Final = 16


def tensors(
    run: RunArgument = None,
    collection: Annotated[
        str | None, typer.Option(help="Only members of this collection.", autocompletion=complete_collection)
    ] = None,
    regex: Annotated[str | None, typer.Option(help="Only names that contain a match.")] = None,
    step: Annotated[int | None, typer.Option(help="Only tensors captured at this step.")] = None,
    mode: Annotated[str | None, typer.Option(help="Only tensors captured in this mode: train, eval …")] = None,
    statistic: Annotated[
        str | None, typer.Option(help="Show the first and last value of this statistic in place of the names of all.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the captured tensors of a run.

    leadline values prints the values of one of them; leadline tensors --collection gradients --statistic abs_mean
    compares the gradients of all layers.
    """
    opened = leadline.open_run(run)
    known = opened.collections()
    if collection not in (None, "all", *known):
        raise UnknownNameError("collection", str(collection), known, hint="--collection")
    if mode not in (None, *MODES):
        raise UnknownNameError("mode", str(mode), MODES, hint="--mode")
    names = opened.tensor_names(collection, _checked(regex), step, mode)
    rows = _rows(opened, names)
    if statistic is not None:
        rows = _with_values(opened, rows, statistic, mode)
    if as_json:
        echo_json(rows)
    elif not rows:
        complain(
            f"no tensors of {opened.name} match" if opened.tensor_names() else f"{opened.name} captured no tensors"
        )
    else:
        width = table_width()
        sets = list(dict.fromkeys(tuple(row["statistics"]) for row in rows))
        is_short = statistic is None and len(sets) < len(rows)
        room = None if width is None else max(_MIN_COLLECTIONS_WIDTH, width // 4)
        cells = [
            (
                row["name"],
                _shape(row["shape"]),
                cut(", ".join(row["collections"]), room),
                _change(row)
                if statistic is not None
                else str(sets.index(tuple(row["statistics"])) + 1)
                if is_short
                else ", ".join(row["statistics"]),
            )
            for row in rows
        ]
        last = "STATISTICS" if statistic is None else f"{statistic.upper()}, FIRST → LAST"
        print_lines(table(("NAME", "SHAPE", "COLLECTIONS", last), cells, width=width))
        if is_short:
            named = [(str(at), ", ".join(names)) for at, names in enumerate(sets, 1)]
            print_lines(Text("\n").append_text(table(("", "STATISTICS"), named, width=width)))


def _checked(regex: str | None) -> str | None:
    error = pattern_error(regex or "")
    if error is not None:
        raise ConfigurationError(f"--regex {regex}: {error}")
    return regex


class ListedTensor(TypedDict):
    """A captured tensor; the first and the last value are those of the statistic that was asked for."""

    name: str
    shape: list[int]
    dtype: str | None
    collections: list[str]
    statistics: list[str]
    first: NotRequired[float | str]
    first_step: NotRequired[int]
    last: NotRequired[float | str]
    last_step: NotRequired[int]


def _rows(run: Run, names: list[str]) -> list[ListedTensor]:
    infos, stored, captured = run.archive.infos(), run.archive.stored, Digest(run).captured()
    statistics = {name: set(captured.get(name, ())) for name in names}
    for name, statistic in run.archive.vectors:
        statistics.setdefault(name, set()).add(statistic)
    rows = list[ListedTensor]()
    for name in names:
        raw = stored.get(name, [])
        info = infos.get(name) or TensorInfo(name, (), raw[0].shape if raw else (), "")
        rows.append(
            {
                "name": name,
                "shape": list(info.shape),
                "dtype": info.dtype or None,
                "collections": list(info.collections),
                "statistics": [*sorted(statistics[name]), *(["raw"] if raw else [])],
            }
        )
    return rows


def _with_values(run: Run, rows: list[ListedTensor], statistic: str, mode: str | None) -> list[ListedTensor]:
    """Add the first and the last value of a statistic to the rows of the tensors of which it was captured.

    Raises:
        UnknownNameError: It was captured of none of them.
    """
    chosen = list[ListedTensor]()
    for row in (row for row in rows if statistic in row["statistics"]):
        found = run.tensor(row["name"]).statistics(statistic)
        if mode is not None:
            found = found.filter(pc.equal(found["mode"], mode))
        if found.num_rows:
            first, last = (found.slice(at, 1).to_pylist()[0] for at in (0, found.num_rows - 1))
            with_ends = row.copy()
            with_ends["first"], with_ends["first_step"] = to_json(first["value"]), first["step"]
            with_ends["last"], with_ends["last_step"] = to_json(last["value"]), last["step"]
            chosen.append(with_ends)
    if rows and not chosen:
        known = sorted({name for row in rows for name in row["statistics"]})
        raise UnknownNameError("statistic of these tensors", statistic, known, hint="--statistic")
    return chosen


def _change(row: ListedTensor) -> str:
    if row["first_step"] == row["last_step"]:
        return f"{number(row['last'])} at step {row['last_step']:,}"
    return f"{number(row['first'])} → {number(row['last'])}"


def _shape(shape: list[int]) -> str:
    return "×".join(map(str, shape)) or "scalar"
