"""``leadline export``: a run for other people's tools."""

from __future__ import annotations

import os
from typing import Annotated, Final

import typer

import leadline
from leadline.cli.console import complain, console
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.exports.perfetto import export_trace
from leadline.exports.span import Span, parse_span
from leadline.exports.tables import export_tables
from leadline.exports.tensorboard import export_events
from leadline.reader.run import Run

FORMATS: Final = ("perfetto", "parquet", "csv", "tensorboard")


def export(
    run: Annotated[str | None, typer.Argument(help="A run's name or path; default: the latest.")] = None,
    to: Annotated[str, typer.Option(help="perfetto, parquet, csv or tensorboard.")] = "perfetto",
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Where to: a file for perfetto, else a folder.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Only from a step (120) or a time after the start (90s) on.")
    ] = None,
    end: Annotated[str | None, typer.Option("--until", help="Only before a step (130) or time (2min).")] = None,
) -> None:
    """Write a run for other people's tools: one trace for Perfetto, tables, or event files.

    The trace (.json or .json.gz) holds workers, nodes, profiling windows and findings on one clock.
    """
    if to not in FORMATS:
        raise UnknownNameError("format", to, FORMATS, hint="--to")
    if output is None:
        raise ConfigurationError(f"-o is missing: say where to, as in -o {'trace.json.gz' if to == 'perfetto' else to}")
    found = leadline.open_run(run)
    started_ns = found.manifest.started_ns
    span = parse_span(start, end, timeline=found.timeline(), started_ns=started_ns)
    for line in found.damage:
        complain(line)
    line = _perfetto(found, output, span) if to == "perfetto" else _tables(found, output, to, span)
    console().print(line, markup=False, highlight=False, soft_wrap=True)


def _perfetto(run: Run, path: str, span: Span) -> str:
    if not path.endswith((".json", ".json.gz")):
        raise ConfigurationError(f"-o {path}: a trace's name ends in .json or .json.gz")
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise ConfigurationError(f"-o {path}: there is no folder {os.path.dirname(path)}")
    written = export_trace(run, path, span)
    for each in written.lost:
        complain(f"left out: {each}")
    if written.thinned:
        complain(written.thinned)
    size = os.path.getsize(path)
    counts = f"{written.slices:,} slices, {written.samples:,} samples, {written.findings:,} findings, {size:,} bytes"
    return f"{path}: {counts}; open it in ui.perfetto.dev (the page reads it, it is sent nowhere)"


def _tables(run: Run, folder: str, to: str, span: Span) -> str:
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise ConfigurationError(f"-o {folder}: that is a file; --to {to} writes into a folder")
    if to == "tensorboard":
        count = export_events(run, folder, span)
        return f"{folder}: {count:,} scalars; look at them with: tensorboard --logdir {folder}"
    rows = export_tables(run, folder, "parquet" if to == "parquet" else "csv", span)
    return f"{folder}: " + ", ".join(f"{name} {count:,} rows" for name, count in rows.items())
