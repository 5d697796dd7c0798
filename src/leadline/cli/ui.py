"""``leadline ui``: serve the dashboard."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from leadline.cli.console import console
from leadline.config.run_config import runs_root
from leadline.config.store_uri import is_uri, parse_place
from leadline.errors import MissingExtraError, RunNotFoundError
from leadline.reader.find_runs import find_run
from leadline.remote.mirror import mirror_run
from leadline.remote.root_mirror import kept_fresh, mirror_root
from leadline.store import layout
from leadline.trials.cache import is_trial

if TYPE_CHECKING:
    from leadline.dashboard.security import Access

PORT: Final = 8321
_TOKEN: Final = "LEADLINE_TOKEN"


def ui(
    place: Annotated[
        str | None, typer.Argument(metavar="[ROOT-or-RUN]", help="Runs directory, run or URI; default ./leadline-runs.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help=f"Port to listen on; 0: any free port.  [default: {PORT}, or the next free one]")
    ] = None,
    should_open: Annotated[bool, typer.Option("--open", help="Open the dashboard in the browser.")] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on; access from other machines needs a token.")
    ] = "127.0.0.1",
    read_only: Annotated[bool, typer.Option("--read-only", help="Disable all controls.")] = False,
) -> None:
    """Serve the dashboard of live and finished runs."""
    root, path, uri = root_and_path(place)
    try:
        from leadline.dashboard.security import make_access
        from leadline.dashboard.server import bind, serve
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the dashboard needs {error.name}; install it with: pip install 'leadline[ui]'"
        ) from error
    names = {socket.gethostname(), socket.getfqdn()} - {""}
    access = make_access(host, token=os.environ.get(_TOKEN), is_read_only=read_only, names=names)
    listener = bind(host, PORT if port is None else port, or_next=port is None)
    address = _address(access, listener.getsockname()[1], path)
    console().print(f"leadline  {address}   (press Ctrl-C to quit)", markup=False, highlight=False, soft_wrap=True)
    if should_open:
        typer.launch(address)
    with kept_fresh((), uri):
        serve(root, listener, access)


def _address(access: Access, port: int, path: str) -> str:
    """The URL to print; for a wildcard address it contains the name of this machine."""
    host = socket.gethostname() if access.host in ("0.0.0.0", "::", "") else access.host
    token = f"?token={quote(access.token, safe='')}" if access.token else ""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}{token}"


def root_and_path(place: str | None) -> tuple[str, str, str]:
    """The runs directory, the first page to show, and the URI that the runs directory mirrors, or "" if none."""
    root = runs_root(None, can_be_remote=True)
    place = parse_place(place) if place is not None else None
    if is_uri(place or root):
        return _remote_root_and_path(place or root)
    for path in (place, os.path.join(root, place)) if place is not None else ():
        if layout.is_run(path) or is_trial(path):
            folder, name = os.path.split(find_run(path))
            return folder, _overview(name), ""
    if place is not None and not os.path.isdir(place):
        raise RunNotFoundError(f"no such run or folder: {place!r}; leadline ls lists the runs of a folder")
    return place or root, "/", ""


def _overview(name: str) -> str:
    return f"/runs/{quote(name, safe='')}/overview"


def _remote_root_and_path(uri: str) -> tuple[str, str, str]:
    try:
        run = mirror_run(uri)
    except RunNotFoundError:
        return mirror_root(uri), "/", uri
    return os.path.dirname(run), _overview(os.path.basename(run)), uri.rpartition("/")[0]
