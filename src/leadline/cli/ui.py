"""``leadline ui``: the dashboard."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from leadline.cli.console import console
from leadline.cli.run_setup import runs_root
from leadline.errors import MissingExtraError, RunNotFoundError
from leadline.store import layout

if TYPE_CHECKING:
    from leadline.dashboard.security import Access

PORT: Final = 8321
_TOKEN: Final = "LEADLINE_TOKEN"


def ui(
    place: Annotated[
        str | None, typer.Argument(metavar="[ROOT-or-RUN]", help="A folder of runs, or a run; default ./leadline-runs.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help=f"Where to listen; 0: any that is free.  [default: {PORT}, or the next]")
    ] = None,
    should_open: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    host: Annotated[
        str, typer.Option(help="The address to listen on; beyond this machine a token is needed.")
    ] = "127.0.0.1",
    read_only: Annotated[bool, typer.Option("--read-only", help="Look, change nothing.")] = False,
) -> None:
    """Show runs in the browser: live, and afterwards."""
    root, path = _root_and_path(place)
    try:
        from leadline.dashboard.security import make_access
        from leadline.dashboard.server import bind, serve
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"the dashboard needs {error.name}; pip install 'leadline[ui]'") from error
    names = {socket.gethostname(), socket.getfqdn()} - {""}
    access = make_access(host, given_token=os.environ.get(_TOKEN), is_read_only=read_only, names=names)
    listener = bind(host, PORT if port is None else port, or_next=port is None)
    address = _address(access, listener.getsockname()[1], path)
    console().print(f"leadline  {address}   (Ctrl-C ends it)", markup=False, highlight=False, soft_wrap=True)
    if should_open:
        typer.launch(address)
    serve(root, listener, access)


def _address(access: Access, port: int, path: str) -> str:
    """The link to print; one that is listened to everywhere is named by this machine's name."""
    host = socket.gethostname() if access.host in ("0.0.0.0", "::", "") else access.host
    token = f"?token={quote(access.token, safe='')}" if access.token else ""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}{token}"


def _root_and_path(place: str | None) -> tuple[str, str]:
    """The folder of runs, and the page to begin with."""
    root = runs_root(None)
    for each in (place, os.path.join(root, place)) if place is not None else ():
        if layout.is_run(each):
            folder, name = os.path.split(os.path.abspath(each))
            return folder, f"/runs/{quote(name, safe='')}/overview"
    if place is not None and not os.path.isdir(place):
        raise RunNotFoundError(f"there is no run or folder {place!r}; leadline ls lists the runs of a folder")
    return place or root, "/"
