"""``leadline tensors``: what a run captured."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import typer

import leadline
from leadline.analysis.digest import Digest
from leadline.cli.arguments import RunArgument, complete_collection
from leadline.cli.console import complain, echo_json
from leadline.cli.table import cut, print_lines, table, table_width
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.reader.run import Run
from leadline.records.names import MODES
from leadline.records.series import TensorInfo

_MIN_COLLECTIONS_WIDTH: Final = 16


def tensors(
    run: RunArgument = None,
    collection: Annotated[
        str | None, typer.Option(help="Only members of this collection.", autocompletion=complete_collection)
    ] = None,
    regex: Annotated[str | None, typer.Option(help="Only names that contain a match.")] = None,
    step: Annotated[int | None, typer.Option(help="Only tensors captured at this step.")] = None,
    mode: Annotated[str | None, typer.Option(help="Only tensors captured in this mode: train, eval …")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the captured tensors of a run.

    leadline values prints the values of one of them.
    """
    opened = leadline.open_run(run)
    known = opened.collections()
    if collection not in (None, "all", *known):
        raise UnknownNameError("collection", str(collection), known, hint="--collection")
    if mode not in (None, *MODES):
        raise UnknownNameError("mode", str(mode), MODES, hint="--mode")
    names = opened.tensor_names(collection, _checked(regex), step, mode)
    rows = _rows(opened, names)
    if as_json:
        echo_json(rows)
    elif not rows:
        complain(
            f"no tensors of {opened.name} match" if opened.tensor_names() else f"{opened.name} captured no tensors"
        )
    else:
        width = table_width()
        room = None if width is None else max(_MIN_COLLECTIONS_WIDTH, width // 4)
        cells = [
            (row["name"], _shape(row["shape"]), cut(", ".join(row["collections"]), room), ", ".join(row["statistics"]))
            for row in rows
        ]
        print_lines(table(("NAME", "SHAPE", "COLLECTIONS", "STATISTICS"), cells, width=width))


def _checked(regex: str | None) -> str | None:
    try:
        re.compile(regex or "")
    except re.error as error:
        raise ConfigurationError(f"--regex {regex}: {error}") from error
    return regex


def _rows(run: Run, names: list[str]) -> list[dict[str, Any]]:
    infos, stored, captured = run.archive.infos(), run.archive.stored, Digest(run).captured()
    statistics = {name: set(captured.get(name, ())) for name in names}
    for name, statistic in run.archive.vectors:
        statistics.setdefault(name, set()).add(statistic)
    rows = []
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


def _shape(shape: list[int]) -> str:
    return "×".join(map(str, shape)) or "scalar"
