"""``leadline upload``: complete the upload of runs whose agent could not."""

from __future__ import annotations

import os
import time
from typing import Annotated, Final

import typer

from leadline.cli.arguments import complete_run
from leadline.cli.console import console
from leadline.config.run_config import spool_root
from leadline.errors import ConfigurationError
from leadline.reader.find_runs import find_run
from leadline.reader.liveness import has_agent, is_over
from leadline.remote.object_store import StoreError
from leadline.remote.upload import Upload
from leadline.store.upload_state import read_upload

_ATTEMPTS: Final = 5


def upload(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="Runs by name or path; default: the latest.", autocompletion=complete_run),
    ] = None,
) -> None:
    """Upload what a run in an object store has not uploaded yet.

    For runs with ``--out s3://…`` whose upload was interrupted. A run that was uploaded already is checked; nothing is
    uploaded twice.
    """
    for run in runs or (None,):
        _complete(find_run(run, spool_root()))


def _complete(run: str) -> None:
    if not is_over(run) and has_agent(run):
        raise ConfigurationError(f"{os.path.basename(run)} is still running: its agent uploads it")
    upload = Upload(run)
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(upload.backoff_seconds)
        upload.advance(is_final=True)
        if upload.state.is_complete:
            console().print(read_upload(run).describe(time.time_ns()), markup=False, soft_wrap=True)
            return
    raise StoreError(upload.state.describe(time.time_ns()))
