"""``leadline export``: export a run to formats of other tools."""

from __future__ import annotations

import os
from typing import Annotated, Final

import typer

import leadline
from leadline.cli.arguments import RunArgument, completing
from leadline.cli.console import complain, console
from leadline.compat.export.trial import export_trial
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.exports.perfetto import export_trace
from leadline.exports.span import Span, parse_span, train_steps
from leadline.exports.tables import export_tables
from leadline.exports.tensorboard_events import export_events
from leadline.reader.run import Run
from leadline.records.formatting import counted

FORMATS: Final = ("perfetto", "parquet", "csv", "tensorboard", "smdebug")


def export(
    run: RunArgument = None,
    to: Annotated[
        str, typer.Option(help="perfetto, parquet, csv, tensorboard or smdebug.", autocompletion=completing(FORMATS))
    ] = "perfetto",
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Output path: a file for perfetto, else a folder.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Start at a step (120) or a time after the start (90s).")
    ] = None,
    end: Annotated[str | None, typer.Option("--until", help="End before a step (130) or a time (2min).")] = None,
) -> None:
    """Export a run to formats of other tools.

    Formats are one trace for Perfetto, tables, TensorBoard event files, and a trial of smdebug. The trace (.json or
    .json.gz) contains workers, nodes, profile windows and findings on one clock; the trial contains the tensors.
    """
    if to not in FORMATS:
        raise UnknownNameError("format", to, FORMATS, hint="--to")
    if output is None:
        raise ConfigurationError(
            f"-o is missing; give an output path, for example -o {'trace.json.gz' if to == 'perfetto' else to}"
        )
    opened = leadline.open_run(run)
    started_ns = opened.manifest.started_ns
    span = parse_span(start, end, timeline=train_steps(opened), started_ns=started_ns)
    for line in opened.damage:
        complain(line)
    line = _perfetto(opened, output, span) if to == "perfetto" else _tables(opened, output, to, span)
    console().print(line, markup=False, highlight=False, soft_wrap=True)


def _perfetto(run: Run, path: str, span: Span) -> str:
    if not path.endswith((".json", ".json.gz")):
        raise ConfigurationError(f"-o {path}: a trace must end in .json or .json.gz")
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise ConfigurationError(f"-o {path}: no such folder: {os.path.dirname(path)}")
    written = export_trace(run, path, span)
    for reason in written.lost:
        complain(f"left out: {reason}")
    if written.downsampled:
        complain(written.downsampled)
    size = os.path.getsize(path)
    counts = f"{written.slices:,} slices, {written.samples:,} samples, {written.findings:,} findings, {size:,} bytes"
    return f"{path}: {counts}; open it in ui.perfetto.dev (the file stays on your machine)"


def _tables(run: Run, folder: str, to: str, span: Span) -> str:
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise ConfigurationError(f"-o {folder}: is a file; --to {to} writes into a folder")
    if to == "tensorboard":
        count = export_events(run, folder, span)
        return f"{folder}: {count:,} scalars; view them with: tensorboard --logdir {folder}"
    if to == "smdebug":
        exported = export_trial(run, folder, span)
        for reason in exported.left_out:
            complain(f"left out: {reason}")
        counts = f"{exported.records:,} records of {counted(exported.steps, 'step')}"
        return f"{folder}: {counts}, {counted(exported.workers, 'worker')}; open it with smdebug's create_trial"
    rows = export_tables(run, folder, "parquet" if to == "parquet" else "csv", span)
    return f"{folder}: " + ", ".join(f"{name} {count:,} rows" for name, count in rows.items())
