"""Who may ask the dashboard for what: hosts, tokens, requests that change something, and what browsers are told."""

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

from leadline.dashboard.query_parameters import whole_number
from leadline.errors import ConfigurationError

CSRF_HEADER: Final = "x-leadline-token"
CSRF_FIELD: Final = "csrf"
TOKEN_VARIABLE: Final = "LEADLINE_TOKEN"
LEAST_TOKEN_CHARACTERS: Final = 16
MOST_BODY_BYTES: Final = 64 << 10
MOST_TARGET_BYTES: Final = 32 << 10

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
"""What pages may load. Plotly makes style sheets as it draws, hence the one ``unsafe-inline``; it runs no code made
from text."""

_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
_ASKING: Final = ("GET", "HEAD")
_STATIC: Final = "/static/"
_FORM: Final = "application/x-www-form-urlencoded"
_ARRIVAL: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Leadline</title>
<meta http-equiv="refresh" content="0;url={target}"><p><a href="{target}">Go on to the dashboard</a></p></html>"""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may do what."""

    host: str = "127.0.0.1"
    """The address that is listened on."""
    token: str | None = None
    """What everybody must bring; None: nobody needs one."""
    is_read_only: bool = False
    """Whether nobody changes anything."""
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """What a page of this process knows, and no other page: proof that a request comes from it."""
    names: frozenset[str] = frozenset()
    """More names under which the dashboard may be called."""

    @property
    def cookie(self) -> str:
        """The cookie's name: its own for each token, for ports do not keep cookies apart."""
        return f"leadline-{_digest(self.token or '', 'name')[:8]}"

    @property
    def proof(self) -> str:
        """The cookie's value."""
        return _digest(self.token or "", "value")


def _digest(token: str, purpose: str) -> str:
    return hmac.new(token.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def make_access(
    host: str, *, given_token: str | None = None, is_read_only: bool = False, names: Iterable[str] = ()
) -> Access:
    """What holds for an address: beyond this machine, a token is needed.

    Args:
        given_token: The token to use, on this machine too; None or "": one is made where it is needed.
        names: More names under which it may be called.
    Raises:
        ConfigurationError: The token is too short to keep anybody out.
    """
    token = given_token or (None if is_loopback(host) else secrets.token_urlsafe(24))
    if token is not None and len(token) < LEAST_TOKEN_CHARACTERS:
        raise ConfigurationError(f"${TOKEN_VARIABLE} must have at least {LEAST_TOKEN_CHARACTERS} characters")
    return Access(host, token, is_read_only, names=frozenset(each.lower() for each in names))


def is_loopback(host: str) -> bool:
    """Whether a name or address is reached from this machine only."""
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
    """Stands before the application, and refuses what it should not see.

    **A foreign name is refused**: a page elsewhere whose name was made to point here reads nothing.
    **Without the token** nothing is served, where one is needed.
    **A request that changes something** is a POST, comes from a page of this process, and is small.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or say why not."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        guarded = _with_headers(send, scope["path"])
        refusal = self._refuse(scope) or self._arrive(scope)
        if refusal is not None:
            await refusal(scope, receive, guarded)
        elif scope["method"] in _ASKING:
            await self._app(scope, receive, guarded)
        else:
            await self._change(scope, receive, guarded)

    def _refuse(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"") > MOST_TARGET_BYTES:
            return _no(414, "this address is too long")
        if not is_ours(headers.get("host", ""), self._access):
            return _no(421, "the dashboard is not known under this name; leadline ui --host NAME serves it under one")
        if _is_foreign(headers, scope["method"]):
            return _no(403, "refused: the request comes from another site")
        return None

    def _arrive(self, scope: Scope) -> Response | None:
        """Who brings the token gets a cookie, and the address without it; who has neither is sent away."""
        access, headers = self._access, Headers(scope=scope)
        if access.token is None:
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        brought = next((value for key, value in query if key == "token"), None)
        if brought is not None and scope["method"] in _ASKING and _equal(brought, access.token):
            return _welcome(scope["path"], [pair for pair in query if pair[0] != "token"], access)
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if _equal(_cookie(headers, access.cookie), access.proof) or _equal(bearer, access.token):
            return None
        return _no(401, "the token is missing or wrong; open the link that leadline ui printed")

    async def _change(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if scope["method"] != "POST":
            refusal: Response | None = _no(405, "only GET and POST are served")
        elif self._access.is_read_only:
            refusal = _no(403, "this dashboard is read-only")
        else:
            refusal = None
        body = b"" if refusal else await _body(headers, receive)
        if body is None:
            refusal = _no(413, f"more than {MOST_BODY_BYTES:,} bytes are not taken")
        elif refusal is None and not _equal(_csrf(headers, body), self._access.csrf):
            refusal = _no(403, "refused: the page is older than this dashboard; load it again")
        if refusal is not None:
            await refusal(scope, receive, send)
        else:
            await self._app(scope, _replayed(body or b"", receive), send)


def is_ours(host: str, access: Access) -> bool:
    """Whether a Host header names this dashboard.

    An address in figures cannot be made to point elsewhere, so where all addresses are listened on each is right.
    """
    name = _name(host)
    if not name:
        return False
    if is_loopback(name) or name == access.host.lower() or name in access.names:
        return True
    listened = _address(access.host)
    return listened is not None and listened.is_unspecified and _address(name) is not None


def _name(host: str) -> str:
    try:
        parts = urlsplit(f"//{host}")
        return "" if parts.username is not None or parts.path else (parts.hostname or "").lower()
    except ValueError:
        return ""


def _is_foreign(headers: Headers, method: str) -> bool:
    """Whether another site's page asks; following a link to a page is nothing that changes or tells anything."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    is_link = method in _ASKING and headers.get("sec-fetch-mode") == "navigate"
    if site is not None and site not in ("same-origin", "none") and not is_link:
        return True
    return origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()


def _welcome(path: str, query: list[tuple[str, str]], access: Access) -> Response:
    """A page that leads on by itself: a browser withholds a strict cookie from a redirect that began elsewhere."""
    quoted = "/" + path.lstrip("/")
    target = urlsplit(quoted)._replace(scheme="", netloc="", query=urlencode(query)).geturl()
    response = HTMLResponse(_ARRIVAL.format(target=_attribute(target)))
    response.set_cookie(access.cookie, access.proof, httponly=True, samesite="strict", path="/")
    return response


def _attribute(text: str) -> str:
    from html import escape
    from urllib.parse import quote

    return escape(quote(text, safe="/?&=%+-._~"))


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _csrf(headers: Headers, body: bytes) -> str:
    """The proof that a request brings, in a header or as a field of its form."""
    if CSRF_HEADER in headers:
        return str(headers[CSRF_HEADER])
    if headers.get("content-type", "").partition(";")[0].strip() != _FORM:
        return ""
    fields = parse_qsl(body.decode("latin-1"), keep_blank_values=True)
    return next((value for key, value in fields if key == CSRF_FIELD), "")


async def _body(headers: Headers, receive: Receive) -> bytes | None:
    """The request's body; None: it is too large."""
    declared = whole_number(headers.get("content-length", "0"))
    if declared is None or declared > MOST_BODY_BYTES:
        return None
    parts, size, has_more = [], 0, True
    while has_more:
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BODY_BYTES:
            return None
        has_more = message.get("more_body", False)
    return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read already, then what comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


def _with_headers(send: Send, path: str) -> Send:
    """Tells browsers what they may do with an answer, unless the answer says it itself.

    Nothing of a run is kept by a browser; our own files are, and asked for each time whether they are the same.
    """
    defaults = {**_HEADERS, "cache-control": "private, no-cache"} if path.startswith(_STATIC) else _HEADERS

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in defaults.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def _equal(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode(), right.encode())


def _no(status: int, words: str) -> Response:
    return PlainTextResponse(words + "\n", status)
