"""``leadline stop``: request that a running job stops at its next step."""

from __future__ import annotations

from typing import Annotated

import typer

import leadline
from leadline.cli.arguments import RunArgument
from leadline.cli.console import console
from leadline.control.requests import GRACE_SECONDS, ask, stop_request
from leadline.records.request import Stop


def stop(
    run: RunArgument = None,
    grace: Annotated[float, typer.Option(help="Seconds to wait before sending signals.")] = GRACE_SECONDS,
) -> None:
    """Stop a running job at its next step.

    Several workers stop at one step. Signals are sent after the grace period.
    """
    request = stop_request(grace_seconds=grace, reason="leadline stop")
    opened = leadline.open_run(run)
    asked = ask(opened, request)
    step = f"global step {asked.step}" if isinstance(asked, Stop) and asked.step is not None else "its next step"
    console().print(f"stop of {opened.name} at {step} requested; signals are sent after {grace:g} s")
