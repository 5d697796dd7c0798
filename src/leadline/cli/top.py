"""``leadline top``: runs in the terminal, live."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from leadline.cli.arguments import complete_run
from leadline.cli.console import console
from leadline.config.run_config import runs_root
from leadline.config.store_uri import is_uri, parse_place
from leadline.errors import ConfigurationError, MissingExtraError, RunNotFoundError
from leadline.reader.find_runs import find_run
from leadline.reader.run import Run
from leadline.store import layout


def top(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="ROOT-or-RUN",
            help="Runs directory, or a run: name, path, URI, -1 (the last but one); default ./leadline-runs.",
            autocompletion=complete_run,
        ),
    ] = None,
) -> None:
    """Watch runs in the terminal: all of a folder, or one of them.

    Shows what leadline ls and leadline show print, and updates it. Keys stop a job, profile its next step, write its
    report and open the dashboard.
    """
    folder, run = folder_and_run(place)
    try:
        from leadline.cli.top_app import Top
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"leadline top needs {error.name}; install it with: pip install 'leadline[top]'"
        ) from error
    if not console().is_terminal:
        raise ConfigurationError("leadline top needs a terminal; leadline ls and leadline show print the same once")
    Top(folder, run).run()


def folder_and_run(place: str | None) -> tuple[str, Run | None]:
    """The folder whose runs are listed, and the run that is shown first; None: the list is.

    Raises:
        RunNotFoundError: There is no such run or folder.
    """
    root = runs_root(None, can_be_remote=True)
    if place is None:
        return root, None
    place = parse_place(place)
    if os.path.isdir(place) and not layout.is_run(place):
        return place, None
    try:
        path = find_run(place, root)
    except RunNotFoundError:
        if is_uri(place):
            return place, None
        raise
    return place.rpartition("/")[0] if is_uri(place) else os.path.dirname(path), Run(path)
