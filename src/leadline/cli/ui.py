"""``leadline ui``: serve the dashboard."""

from __future__ import annotations

import os
import socket
import stat
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Final, TextIO
from urllib.parse import quote

import typer

from leadline.cli.console import complain, console
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
_OPENING_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Leadline</title>
<meta http-equiv="refresh" content="0;url={link}"><p><a href="{link}">Continue to the dashboard</a></p></html>"""


def ui(
    place: Annotated[
        str | None, typer.Argument(metavar="ROOT-or-RUN", help="Runs directory, run or URI; default ./leadline-runs.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help=f"Port to listen on; 0: any free port.  [default: {PORT}, or the next free one]")
    ] = None,
    should_open: Annotated[bool, typer.Option("--open", help="Open the dashboard in the browser.")] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0: all, so that other machines can connect.")
    ] = "127.0.0.1",
    read_only: Annotated[bool, typer.Option("--read-only", help="Disable all controls.")] = False,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let every user of this machine see and control the runs.")
    ] = False,
) -> None:
    """Serve the dashboard of live and finished runs.

    Who opens it needs the token: that of the printed link, or $LEADLINE_TOKEN if it is set.
    """
    root, path, uri = root_and_path(place)
    try:
        from leadline.dashboard.security import make_access
        from leadline.dashboard.server import bind, serve
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the dashboard needs {error.name}; install it with: pip install 'leadline[ui]'"
        ) from error
    names = {socket.gethostname(), socket.getfqdn()} - {""}
    given = os.environ.get(_TOKEN)
    access = make_access(host, token=given, needs_token=not no_token, is_read_only=read_only, names=names)
    listener = bind(host, PORT if port is None else port, or_next=port is None)
    address = _address(access, listener.getsockname()[1], path)
    link = f"{address}?token={quote(access.token, safe='')}" if access.token else address
    printed, has_secret = (address, False) if given else (link, access.token is not None)
    with kept_fresh((), uri), opened(link) if should_open else nullcontext():
        serve(root, listener, access, lambda: _print_address(printed, has_secret=has_secret))


def _address(access: Access, port: int, path: str) -> str:
    """The URL of a page; for a wildcard address it contains the name of this machine."""
    host = socket.gethostname() if access.host in ("0.0.0.0", "::", "") else access.host
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


def _print_address(address: str, *, has_secret: bool) -> None:
    """Print the address. A token that was given is never printed: output of services ends in logs."""
    if has_secret and _is_readable_by_others(sys.stdout):
        file = _name_of(sys.stdout)
        own = f"set ${_TOKEN} to a token of your own, which is not printed"
        complain(f"other users can read the token in {file}: run chmod 600 {file}, or {own}")
    console().print(f"leadline  {address}   (press Ctrl-C to quit)", markup=False, highlight=False, soft_wrap=True)


def _is_readable_by_others(stream: TextIO) -> bool:
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except OSError:  # a stream without a descriptor
        return False
    return stat.S_ISREG(mode) and bool(mode & (stat.S_IRGRP | stat.S_IROTH))


def _name_of(stream: TextIO) -> str:
    """Return the path of the file to which a stream writes."""
    link = f"/proc/self/fd/{stream.fileno()}"
    return os.path.realpath(link) if os.path.exists(link) else "the output"


@contextmanager
def opened(link: str) -> Iterator[None]:
    """Open a page in the browser.

    Every user can see the arguments of a browser. Its argument is therefore a private file that leads to the page.
    """
    with TemporaryDirectory(prefix="leadline-ui-") as folder:
        page = Path(folder, "open.html")
        descriptor = os.open(page, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(_OPENING_PAGE.format(link=escape(link)))
        Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
        yield


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
