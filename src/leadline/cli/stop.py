"""``leadline stop``: ask a running job to stop at its next step."""

from __future__ import annotations

import time
from typing import Annotated

import typer

import leadline
from leadline.cli.render import console
from leadline.errors import ConfigurationError
from leadline.records.names import JOB_ENDED
from leadline.records.request import Request
from leadline.store.control import new_request_id, write_request


def stop(
    run: Annotated[str | None, typer.Argument(help="A run's name or path; default: the latest.")] = None,
    grace: Annotated[float, typer.Option(help="Seconds until signals follow.")] = 30.0,
) -> None:
    """Ask a running job to stop at its next step; signals follow after the grace time."""
    found = leadline.open_run(run)
    if found.status in JOB_ENDED:
        raise ConfigurationError(f"{found.name} is not running: it is {found.status}")
    if grace < 0:
        raise ConfigurationError(f"--grace must be at least 0, not {grace:g}")
    request = Request(
        id=new_request_id(),
        kind="stop",
        reason="leadline stop",
        by="user",
        time_ns=time.time_ns(),
        grace_seconds=grace,
    )
    write_request(found.uri, request)
    console().print(f"asked {found.name} to stop at its next step; signals follow after {grace:g} s")
