"""Access control of the dashboard: host names, tokens, cross-site requests, and security headers."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leadline.dashboard.query import parse_integer
from leadline.errors import ConfigurationError

TOKEN_VARIABLE: Final = "LEADLINE_TOKEN"
MIN_TOKEN_CHARACTERS: Final = 16
MAX_BODY_BYTES: Final = 64 << 10
MAX_TARGET_BYTES: Final = 32 << 10

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
"""Content security policy of pages. Plotly inserts style sheets, hence ``unsafe-inline`` for styles; it does not
evaluate code from strings."""

_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_TOO_LARGE: Final = f"the request body exceeds {MAX_BODY_BYTES:,} bytes"
_SAFE_METHODS: Final = ("GET", "HEAD")
_STATIC_PREFIX: Final = "/static/"
_LOGIN_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Leadline</title>
<meta http-equiv="refresh" content="0;url={target}"><p><a href="{target}">Continue to the dashboard</a></p></html>"""
_FORM: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Leadline</title>
<style>body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 40rem; padding: 0 1rem; }}</style>
<h1>Leadline</h1><p>{message}</p><form>{fields}<label>Token: <input name="token" type="password" required autofocus
autocomplete="off"></label> <button>Continue</button></form></html>"""
_NO_TOKEN: Final = "the token is missing or wrong; open the link that leadline ui printed, or give the token"


@dataclass(frozen=True, slots=True)
class Access:
    """Access rules of a dashboard."""

    host: str = "127.0.0.1"
    """Address the server listens on."""
    token: str | None = None
    """Required token; None: no token required."""
    is_read_only: bool = False
    """Whether all changing requests are refused."""
    names: frozenset[str] = frozenset()
    """Further host names of the dashboard."""

    @property
    def cookie(self) -> str:
        """Name of the cookie, different for each token because cookies are shared across ports."""
        return f"leadline-{_digest(self.token or '', 'name')[:8]}"

    @property
    def proof(self) -> str:
        """Value of the cookie."""
        return _digest(self.token or "", "value")


def _digest(token: str, purpose: str) -> str:
    return hmac.new(token.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def make_access(
    host: str,
    *,
    token: str | None = None,
    needs_token: bool = True,
    is_read_only: bool = False,
    names: Iterable[str] = (),
) -> Access:
    """Return the access rules for an address.

    A token is required on loopback, too: every user of the machine can connect to it.

    Args:
        token: Token to require; None or "": one is generated.
        needs_token: Whether a token is required.
        names: Further host names of the dashboard.
    Raises:
        ConfigurationError: The token is too short, or none is to be required although other machines can connect.
    """
    names = frozenset(name.lower() for name in names)
    if not needs_token:
        if token:
            raise ConfigurationError(
                f"--no-token contradicts ${TOKEN_VARIABLE}; unset the variable, or omit the option"
            )
        if not is_loopback(host):
            raise ConfigurationError(f"--no-token: other machines can connect to --host {host}; omit one of the two")
        return Access(host, None, is_read_only, names=names)
    token = token or secrets.token_urlsafe(24)
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise ConfigurationError(f"${TOKEN_VARIABLE} must have at least {MIN_TOKEN_CHARACTERS} characters")
    return Access(host, token, is_read_only, names=names)


def is_loopback(host: str) -> bool:
    """Return whether a name or address is reachable only from this machine."""
    if host.lower() == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class AccessMiddleware:
    """Middleware that refuses unauthorized requests.

    **Unknown host names are refused**: protects against DNS rebinding. Starlette's ``TrustedHostMiddleware`` accepts a
    fixed list only: neither every numeric address nor a message of our own.
    **Without the token** nothing is served, if one is required.
    **A changing request** must be a POST, come from a page of this dashboard, and be small. Browsers state where a
    request comes from in ``Sec-Fetch-Site`` and ``Origin``, and scripts of other pages cannot set these headers. A
    program that sends the token in a header is no browser, and needs neither.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it with a reason."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            request = Request(scope)
            refusal = self._refuse(request) or self._authenticate(request) or self._refuse_change(request)
            app = self._app if refusal is None else refusal
            await app(scope, _limit_body(receive), _add_headers(send, scope["path"]))

    def _refuse(self, request: Request) -> Response | None:
        if len(request.scope.get("raw_path") or b"") + len(request.scope["query_string"]) > MAX_TARGET_BYTES:
            return _refusal(414, "the URL is too long")
        if not is_known_host(request.headers.get("host", ""), self._access):
            return _refusal(421, "unknown host name; leadline ui --host NAME serves the dashboard under a name")
        if _is_cross_site(request, is_program=self._has_bearer(request)):
            return _refusal(403, "refused: cross-site request")
        return None

    def _authenticate(self, request: Request) -> Response | None:
        """Accept the token in the query (sets a cookie and removes it from the URL), a header, or the cookie."""
        access = self._access
        if access.token is None:
            return None
        query = request.query_params
        if request.method in _SAFE_METHODS and _equal(query.get("token", ""), access.token):
            return _set_cookie_page(
                request.scope["path"], [pair for pair in query.multi_items() if pair[0] != "token"], access
            )
        if _equal(request.cookies.get(access.cookie, ""), access.proof) or self._has_bearer(request):
            return None
        return _ask_for_token(request)

    def _has_bearer(self, request: Request) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        token = self._access.token
        return token is not None and scheme.lower() == "bearer" and _equal(given.strip(), token)

    def _refuse_change(self, request: Request) -> Response | None:
        if request.method in _SAFE_METHODS:
            return None
        if request.method != "POST":
            return _refusal(405, "only GET and POST are served")
        if self._access.is_read_only:
            return _refusal(403, "this dashboard is read-only")
        declared_bytes = parse_integer(request.headers.get("content-length", "0"))
        return None if declared_bytes is not None and declared_bytes <= MAX_BODY_BYTES else _refusal(413, _TOO_LARGE)


def is_known_host(host: str, access: Access) -> bool:
    """Return whether a Host header names this dashboard.

    A numeric address cannot be rebound, so any is accepted if the server listens on all addresses.
    """
    name = _name(host)
    if not name:
        return False
    if is_loopback(name) or name == access.host.lower() or name in access.names:
        return True
    listen_address = _address(access.host)
    return listen_address is not None and listen_address.is_unspecified and _address(name) is not None


def _name(host: str) -> str:
    try:
        parts = urlsplit(f"//{host}")
        return "" if parts.username is not None or parts.path else (parts.hostname or "").lower()
    except ValueError:
        return ""


def _is_cross_site(request: Request, *, is_program: bool) -> bool:
    """Return whether another site may have made a request; following a link to a page is allowed."""
    headers = request.headers
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        return True
    if request.method not in _SAFE_METHODS:
        return site != "same-origin" if site is not None else origin is None and not is_program
    return site not in (None, "same-origin", "none") and headers.get("sec-fetch-mode") != "navigate"


def _set_cookie_page(path: str, query: list[tuple[str, str]], access: Access) -> Response:
    """Return a page that sets the cookie and reloads: browsers withhold strict cookies from cross-site redirects."""
    target = quote("/" + path.lstrip("/")) + (f"?{urlencode(query)}" if query else "")
    response = HTMLResponse(_LOGIN_PAGE.format(target=escape(target)))
    response.set_cookie(access.cookie, access.proof, httponly=True, samesite="strict", path="/")
    return response


def _ask_for_token(request: Request) -> Response:
    """Refuse a request: with a form for a page that somebody opens, with one line for programs and parts of pages."""
    headers = {"www-authenticate": "Bearer"}
    is_opened = "text/html" in request.headers.get("accept", "") and "hx-request" not in request.headers
    if request.method != "GET" or not is_opened:
        return PlainTextResponse(_NO_TOKEN + "\n", 401, headers)
    others = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
    fields = "".join(f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">' for name, value in others)
    message = _NO_TOKEN[0].upper() + _NO_TOKEN[1:] + "."
    return HTMLResponse(_FORM.format(message=message, fields=fields), 401, headers)


def _limit_body(receive: Receive) -> Receive:
    """Refuse a request body that turns out to be too large while it is read."""
    size = 0

    async def receive_message() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MAX_BODY_BYTES:
            raise HTTPException(413, _TOO_LARGE)
        return message

    return receive_message


def _add_headers(send: Send, path: str) -> Send:
    """Add security and cache headers, unless the response sets them itself.

    Run data is never cached by browsers; static files are, with revalidation.
    """
    defaults = {**_HEADERS, "cache-control": "private, no-cache"} if path.startswith(_STATIC_PREFIX) else _HEADERS

    async def send_message(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in defaults.items():
                headers.setdefault(name, value)
        await send(message)

    return send_message


def _equal(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode(), right.encode())


def _refusal(status: int, message: str) -> Response:
    return PlainTextResponse(message + "\n", status)
