"""``leadline set``: change a setting of a running job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer

import leadline
from leadline.cli.console import console
from leadline.control.requests import ask, settings_requests
from leadline.control.responses import AGENT, await_answers, what

_PATIENCE_SECONDS: Final = 5.0


def set_(
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="[RUN] KEY=VALUE…; the run is the latest. Keys: interval-ms, rule=NAME[:key=value,…]."),
    ] = None,
) -> int:
    """Change a running job: how often the machine is sampled, and by which more rules it is judged.

    Waits until the job has answered.
    """
    name, words = _read(settings or [])
    wishes = settings_requests(words, lambda: leadline.open_run(name), reason="leadline set")
    run = leadline.open_run(name)
    requests = [ask(run, each) for each in wishes]
    answers = await_answers(run, requests, _PATIENCE_SECONDS)
    for request in requests:
        if len(requests) > 1:
            console().print(f"{what(request)}:", markup=False, soft_wrap=True)
        for each in answers[request.id]:
            console().print(f"{each.worker.removeprefix(AGENT)}: {each.outcome}", markup=False, soft_wrap=True)
        if not answers[request.id]:
            console().print(f"nobody has answered within {_PATIENCE_SECONDS:g} s; the request stays for who comes")
    told = [[each.outcome for each in answers[request.id]] for request in requests]
    return 0 if all(each and all(one.startswith("taken") for one in each) for each in told) else 1


def _read(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The run, and what is to be changed."""
    name = words[0] if words and "=" not in words[0] else None
    return name, list(words[1:] if name is not None else words)
