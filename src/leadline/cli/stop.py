"""``leadline stop``: ask a running job to stop at its next step."""

from __future__ import annotations

from typing import Annotated

import typer

import leadline
from leadline.cli.console import console
from leadline.control.requests import GRACE_SECONDS, ask, stop_request


def stop(
    run: Annotated[str | None, typer.Argument(help="A run's name or path; default: the latest.")] = None,
    grace: Annotated[float, typer.Option(help="Seconds until signals follow.")] = GRACE_SECONDS,
) -> None:
    """Ask a running job to stop at its next step; signals follow after the grace time."""
    request = stop_request(grace_seconds=grace, reason="leadline stop")
    found = leadline.open_run(run)
    ask(found, request)
    console().print(f"asked {found.name} to stop at its next step; signals follow after {grace:g} s")
