"""``leadline set``: change settings of a running job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer

import leadline
from leadline.cli.console import console
from leadline.control.requests import ask, settings_requests
from leadline.control.responses import await_answers
from leadline.records import describe

_PATIENCE_SECONDS: Final = 5.0


def set_(
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            help="[RUN] KEY=VALUE…; default: the latest run. Settings: interval-ms=100 (or off), "
            "rule=NAME[:key=value,…], rule=-NAME, capture=COLLECTION:every=500, capture=-COLLECTION."
        ),
    ] = None,
) -> int:
    """Change settings of a running job.

    Sets the sampling interval of system metrics, adds or removes (-) a rule, or captures a collection at other steps
    or no longer (-). Waits until the job has answered.
    """
    name, assignments = _split_run(settings or [])
    new_requests = settings_requests(assignments, lambda: leadline.open_run(name), reason="leadline set")
    run = leadline.open_run(name)
    requests = [ask(run, request) for request in new_requests]
    answers = await_answers(run, requests, _PATIENCE_SECONDS)
    for request in requests:
        if len(requests) > 1:
            console().print(f"{describe.request(request)}:", markup=False, soft_wrap=True)
        for answer in answers[request.id]:
            console().print(describe.response(answer), markup=False, soft_wrap=True)
        if not answers[request.id]:
            console().print(f"no answer within {_PATIENCE_SECONDS:g} s; the request remains pending")
    given = answers.values()
    return 0 if all(given) and all(answer.answer.is_accepted for of_request in given for answer in of_request) else 1


def _split_run(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The name of the run, if the first word is one, and the settings."""
    name = arguments[0] if arguments and "=" not in arguments[0] else None
    return name, list(arguments[1:] if name is not None else arguments)
