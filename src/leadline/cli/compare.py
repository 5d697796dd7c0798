"""``leadline compare``: runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Final

import typer
from rich.text import Text

import leadline
from leadline.analysis import comparison
from leadline.analysis.comparison import ComparedRow, ComparedScalar
from leadline.analysis.digest import Digest
from leadline.analysis.first_difference import first_difference
from leadline.analysis.overview import outcome_of
from leadline.cli.arguments import complete_run
from leadline.cli.console import LEVEL_STYLES, echo_json
from leadline.cli.table import cut, print_lines, table, table_width
from leadline.errors import ConfigurationError
from leadline.reader.run import Run
from leadline.records.formatting import counted, printable
from leadline.store.documents import to_json

_MAX_RUNS: Final = 5
_MIN_CELL_WIDTH: Final = 12


def compare(
    runs: Annotated[list[str], typer.Argument(help="Two to five runs, by name or path.", autocompletion=complete_run)],
    show_all: Annotated[
        bool, typer.Option("--all", help="Also hyperparameters, rules and settings that do not differ.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Compare outcomes, metrics and settings of runs.

    Of losses and metrics it shows the first value, the mean of the last tenth, and its difference from the first run's.
    It names the first step and tensor at which each run differs from the first one.
    """
    if not 2 <= len(runs) <= _MAX_RUNS:
        raise ConfigurationError(f"two to {_MAX_RUNS} runs can be compared, not {len(runs)}")
    opened = [leadline.open_run(name) for name in runs]
    digests = [Digest(run) for run in opened]
    scalars = comparison.scalars([comparison.scalar_summaries(digest) for digest in digests])
    hyperparameters = comparison.hyperparameters([comparison.hyperparameters_of(digest) for digest in digests])
    facts, rules, settings = (of(opened) for of in (comparison.facts, comparison.rules, comparison.settings))
    differences = [first_difference(opened[0], other) for other in opened[1:]]
    if as_json:
        sections = {"facts": facts, "hyperparameters": hyperparameters, "rules": rules, "settings": settings}
        echo_json(
            _to_dict(opened, sections, scalars)
            | {"first_differences": [found and to_json(asdict(found)) for found in differences]}
        )
        return
    names = [run.name for run in opened]
    if len(set(names)) < len(names):
        names = _without_common_folders(runs)
    for name, run in zip(names, opened, strict=True):
        outcome = outcome_of(run)
        print_lines(Text(printable(f"{name}  ")).append(printable(outcome.text), LEVEL_STYLES[outcome.level]))
    _print_rows("FACTS", names, [(row.name, *map(_text, row.values)) for row in facts])
    _print_rows("FIRST → MEAN OF LAST TENTH (MIN … MAX)", names, [_scalar_row(scalar) for scalar in scalars])
    for name, difference in zip(names[1:], differences, strict=True):
        typer.echo()
        place = "none in what both have captured" if difference is None else difference.text()
        typer.echo(f"first difference of {printable(name)} from {printable(names[0])}: {printable(place)}")
    for title, rows in (("HYPERPARAMETERS", hyperparameters), ("RULES", rules), ("SETTINGS", settings)):
        shown = [row for row in rows if row.differs or show_all]
        _print_rows(title, names, [(row.name, *map(_text, row.values)) for row in shown])
        if len(shown) < len(rows):
            same = counted(len(rows) - len(shown), f"other {title.lower()[:-1]}")
            typer.echo(f"{same} without a difference; --all shows them")


def _without_common_folders(paths: Sequence[str]) -> list[str]:
    """Return paths without the folders with which all of them begin; equal paths keep their last part."""
    parts = [path.split("/") for path in paths]
    same = next((index for index, at in enumerate(zip(*parts, strict=False)) if len(set(at)) > 1), -1)
    return ["/".join(of_path[same:]) for of_path in parts]


def _print_rows(title: str, names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table with a column for each run; on a terminal the columns share its width."""
    if not rows:
        return
    width = table_width()
    first = max(len(row[0]) for row in (*rows, (title,)))
    room = None if width is None else max(_MIN_CELL_WIDTH, (width - first) // len(names) - 2)
    cells = [(row[0], *_cut_cells(row[1:], room)) for row in rows]
    typer.echo()
    print_lines(table((title, *(cut(name, room) for name in names)), cells, width=width))


def _cut_cells(cells: Sequence[str], room: int | None) -> list[str]:
    """Shorten the cells of a row to a width; where they would look alike, leave out the words with which all begin."""
    shown = [cut(cell, room) for cell in cells]
    if room is None or len(set(shown)) == len(set(cells)):
        return shown
    words = [cell.split(" ") for cell in cells]
    same = next((index for index, at in enumerate(zip(*words, strict=False)) if len(set(at)) > 1), 0)
    return [cut(" ".join(["…", *of_cell[max(0, same - 1) :]]), room) for of_cell in words]


def _text(value: str | None) -> str:
    return "–" if value is None else value


def _scalar_row(scalar: ComparedScalar) -> tuple[str, ...]:
    return scalar.label, *(_text(text) for text in scalar.texts)


def _to_dict(
    runs: Sequence[Run], sections: dict[str, list[ComparedRow]], scalars: Sequence[ComparedScalar]
) -> dict[str, object]:
    rows = {name: {row.name: list(row.values) for row in of_section} for name, of_section in sections.items()}
    return {
        "runs": [{"name": run.name, "uri": run.uri, "outcome": outcome_of(run).to_dict()} for run in runs],
        **rows,
        "scalars": [to_json(asdict(scalar) | {"changes": scalar.changes}) for scalar in scalars],
    }
