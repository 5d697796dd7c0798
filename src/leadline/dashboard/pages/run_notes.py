"""Note and tags of a run, and its deletion; all from the run list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from leadline.control.deletion import delete_run
from leadline.dashboard.page import render, site
from leadline.dashboard.pages.controls import read_form
from leadline.errors import ConfigurationError
from leadline.reader import liveness
from leadline.store.run_notes import MAX_NOTE_CHARACTERS, make_notes, read_notes, write_notes
from leadline.store.run_state import run_bytes


def notes(request: Request) -> Response:
    """Serve ``/runs/{run}/notes``: the form of a run's note and tags, and of its deletion."""
    path = site(request).run_cache.path(request.path_params["run"])
    context = {
        "notes": read_notes(path),
        "max_characters": MAX_NOTE_CHARACTERS,
        "bytes": run_bytes(path),
        "is_over": liveness.is_over(path),
    }
    return render(request, "run_notes.html", context)


def _save(request: Request, fields: Mapping[str, str]) -> None:
    path = site(request).run_cache.path(request.path_params["run"])
    write_notes(path, make_notes(fields.get("note", ""), fields.get("tags", "").split(",")))


def _delete(request: Request, fields: Mapping[str, str]) -> None:
    run_cache, name = site(request).run_cache, request.path_params["run"]
    if fields.get("name") != name:
        raise ConfigurationError("enter the name of the run to delete it")
    delete_run(run_cache.path(name))
    run_cache.close(name)


def _endpoint(change: Callable[[Request, Mapping[str, str]], None]) -> Callable[[Request], Any]:
    async def respond(request: Request) -> Response:
        fields = read_form(await request.body())
        try:
            await run_in_threadpool(change, request, fields)
            site(request).run_list.expire()
        except ConfigurationError as error:
            raise HTTPException(400, str(error)) from error
        except OSError as error:
            raise HTTPException(409, f"it cannot be written: {error.strerror}") from error
        return Response(status_code=204)

    return respond


save = _endpoint(_save)
"""Endpoint of ``POST /runs/{run}/notes``."""
delete = _endpoint(_delete)
"""Endpoint of ``POST /runs/{run}/delete``, with the name of the run as confirmation."""
