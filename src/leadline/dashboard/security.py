"""Access control of the dashboard: host names, tokens, CSRF, and security headers."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leadline.dashboard.query_parameters import parse_integer
from leadline.errors import ConfigurationError

CSRF_HEADER: Final = "x-leadline-token"
CSRF_FIELD: Final = "csrf"
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
_SAFE_METHODS: Final = ("GET", "HEAD")
_STATIC_PREFIX: Final = "/static/"
_FORM_TYPE: Final = "application/x-www-form-urlencoded"
_LOGIN_PAGE: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Leadline</title>
<meta http-equiv="refresh" content="0;url={target}"><p><a href="{target}">Continue to the dashboard</a></p></html>"""


@dataclass(frozen=True, slots=True)
class Access:
    """Access rules of a dashboard."""

    host: str = "127.0.0.1"
    """Address the server listens on."""
    token: str | None = None
    """Required token; None: no token required."""
    is_read_only: bool = False
    """Whether all changing requests are refused."""
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """CSRF token, known only to pages of this process."""
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
    host: str, *, token: str | None = None, is_read_only: bool = False, names: Iterable[str] = ()
) -> Access:
    """Return the access rules for an address; addresses other than loopback require a token.

    Args:
        token: Token to require, also on loopback; None or "": generated if one is required.
        names: Further host names of the dashboard.
    Raises:
        ConfigurationError: The token is too short.
    """
    token = token or (None if is_loopback(host) else secrets.token_urlsafe(24))
    if token is not None and len(token) < MIN_TOKEN_CHARACTERS:
        raise ConfigurationError(f"${TOKEN_VARIABLE} must have at least {MIN_TOKEN_CHARACTERS} characters")
    return Access(host, token, is_read_only, names=frozenset(name.lower() for name in names))


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

    **Unknown host names are refused**: protects against DNS rebinding.
    **Without the token** nothing is served, if one is required.
    **A changing request** must be a POST, come from a page of this process, and be small.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it with a reason."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        send_add_headers = _add_headers(send, scope["path"])
        refusal = self._refuse(scope) or self._authenticate(scope)
        if refusal is not None:
            await refusal(scope, receive, send_add_headers)
        elif scope["method"] in _SAFE_METHODS:
            await self._app(scope, receive, send_add_headers)
        else:
            await self._change(scope, receive, send_add_headers)

    def _refuse(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"") > MAX_TARGET_BYTES:
            return _refusal(414, "the URL is too long")
        if not is_known_host(headers.get("host", ""), self._access):
            return _refusal(421, "unknown host name; leadline ui --host NAME serves the dashboard under a name")
        if _is_foreign(headers, scope["method"]):
            return _refusal(403, "refused: cross-site request")
        return None

    def _authenticate(self, scope: Scope) -> Response | None:
        """Accept the token in the query (sets a cookie and removes it from the URL), a header, or the cookie."""
        access, headers = self._access, Headers(scope=scope)
        if access.token is None:
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        query_token = next((value for key, value in query if key == "token"), None)
        if query_token is not None and scope["method"] in _SAFE_METHODS and _equal(query_token, access.token):
            return _set_cookie_page(scope["path"], [pair for pair in query if pair[0] != "token"], access)
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if _equal(_cookie(headers, access.cookie), access.proof) or _equal(bearer, access.token):
            return None
        return _refusal(401, "the token is missing or wrong; open the link that leadline ui printed")

    async def _change(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if scope["method"] != "POST":
            refusal: Response | None = _refusal(405, "only GET and POST are served")
        elif self._access.is_read_only:
            refusal = _refusal(403, "this dashboard is read-only")
        else:
            refusal = None
        body = b"" if refusal else await _body(headers, receive)
        if body is None:
            refusal = _refusal(413, f"the request body exceeds {MAX_BODY_BYTES:,} bytes")
        elif refusal is None and not _equal(_csrf(headers, body), self._access.csrf):
            refusal = _refusal(403, "refused: the page is from an earlier dashboard process; reload it")
        if refusal is not None:
            await refusal(scope, receive, send)
        else:
            await self._app(scope, _replay_body(body or b"", receive), send)


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


def _is_foreign(headers: Headers, method: str) -> bool:
    """Return whether a request is cross-site; following a link to a page is allowed."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    is_link = method in _SAFE_METHODS and headers.get("sec-fetch-mode") == "navigate"
    if site is not None and site not in ("same-origin", "none") and not is_link:
        return True
    return origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()


def _set_cookie_page(path: str, query: list[tuple[str, str]], access: Access) -> Response:
    """Return a page that sets the cookie and reloads: browsers withhold strict cookies from cross-site redirects."""
    quoted = "/" + path.lstrip("/")
    target = urlsplit(quoted)._replace(scheme="", netloc="", query=urlencode(query)).geturl()
    response = HTMLResponse(_LOGIN_PAGE.format(target=_escape_attribute(target)))
    response.set_cookie(access.cookie, access.proof, httponly=True, samesite="strict", path="/")
    return response


def _escape_attribute(text: str) -> str:
    from html import escape
    from urllib.parse import quote

    return escape(quote(text, safe="/?&=%+-._~"))


def _cookie(headers: Headers, name: str) -> str:
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return morsel.value if morsel is not None else ""


def _csrf(headers: Headers, body: bytes) -> str:
    """Return the CSRF token of a request, from a header or a form field."""
    if CSRF_HEADER in headers:
        return str(headers[CSRF_HEADER])
    if headers.get("content-type", "").partition(";")[0].strip() != _FORM_TYPE:
        return ""
    fields = parse_qsl(body.decode("latin-1"), keep_blank_values=True)
    return next((value for key, value in fields if key == CSRF_FIELD), "")


async def _body(headers: Headers, receive: Receive) -> bytes | None:
    """Read the request body; None: it is too large."""
    declared = parse_integer(headers.get("content-length", "0"))
    if declared is None or declared > MAX_BODY_BYTES:
        return None
    parts, size, has_more = [], 0, True
    while has_more:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            return None
        has_more = message.get("more_body", False)
    return b"".join(parts)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that yields the body already read, then further messages."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return pending.pop() if pending else await receive()

    return replay


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
