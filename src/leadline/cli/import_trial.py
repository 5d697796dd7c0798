"""``leadline import``: a trial that smdebug wrote as a run."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from leadline.cli.console import complain, console
from leadline.config.run_config import runs_root
from leadline.config.store_uri import is_uri, parse_place
from leadline.errors import ConfigurationError
from leadline.records.formatting import counted
from leadline.trials.importer import ImportedTrial, import_trial
from leadline.trials.remote_trial import fetch_trial


def import_(
    trial: Annotated[
        str, typer.Argument(help="Folder or URI of a trial, or of a job with debug-output and profiler-output.")
    ],
    run: Annotated[
        str | None, typer.Argument(help="Name in the runs directory, or path of the run; default: the trial's name.")
    ] = None,
) -> None:
    """Import a trial of smdebug (SageMaker Debugger) as a run.

    Everything that can be read is imported; a line names each part that cannot. The trial is not changed.
    """
    trial = parse_place(trial)
    path = _run_path(trial, run)
    try:
        imported = import_trial(fetch_trial(trial) if is_uri(trial) else trial, path)
    except OSError as error:
        if isinstance(error, FileExistsError):
            raise
        raise ConfigurationError(f"{error.filename or path}: {(error.strerror or str(error)).lower()}") from error
    for line in imported.damage:
        complain(line)
    console().print(f"{path}: {_summary(imported)}", markup=False, highlight=False, soft_wrap=True)


def _run_path(trial: str, run: str | None) -> str:
    """The path of the run; a name without a folder is one in the runs directory."""
    name = run or os.path.basename(os.path.realpath(trial)) or "trial"
    return name if os.path.dirname(name) else os.path.join(runs_root(None), name)


def _summary(imported: ImportedTrial) -> str:
    parts = [(imported.tensors, "tensor"), (imported.steps, "step"), (imported.workers, "worker")]
    parts += [(imported.nodes, "node"), (imported.events, "event"), (imported.profiles, "profile window")]
    return ", ".join(counted(count, name) for count, name in parts if count) or "nothing"
