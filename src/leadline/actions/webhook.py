"""The action webhook."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import ClassVar, Final
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from leadline.actions.action import Action, ActionContext, Outcome, RejectedError, RetryLaterError
from leadline.actions.http_client import PORTS, HttpResponse, host, port, post
from leadline.errors import ConfigurationError
from leadline.records.version import __version__
from leadline.store.documents import encode

_SAME_REQUEST: Final = frozenset({307, 308})
"""Redirects that keep method and body."""
_ANOTHER_REQUEST: Final = frozenset({300, 301, 302, 303})
"""Redirects after which a POST would become a GET without our notice."""
_LATER: Final = frozenset({408, 425, 429})
_MOST_REDIRECTS: Final = 3
_PROBE_SECONDS: Final = 5.0
_SOCKET_SHARE: Final = 0.9
"""Of the time limit of one try: a server that hangs is told of as such before the try is cut off."""
_FORM: Final = "write webhook:https://host/path"


class Webhook(Action, frozen=True, kw_only=True):
    """Posts each notice as JSON to a URL.

    What is posted is described in [events.md](events.md), field by field.

    Any answer from 200 to 299 is a success. Those from 400 to 499 except 408, 425 and 429 are refusals and not tried
    again; all others are, not before the time that the server gives as `Retry-After`. Redirects that keep the request
    (307, 308) are followed, at most 3, never from https to http, and without `authorization` to another host; others
    are refused, and the outcome says where to.

    The header `Idempotency-Key` is the same at each try of a notice, so that a receiver can leave out what it has
    taken already: what was delivered while the connection broke is delivered again. A proxy is taken from the
    environment, as the Python standard library does.

    Args:
        url: Where to, http or https; one with a secret in it as `$NAME`.
        authorization: What the header `Authorization` says: `Bearer $TOKEN`; empty: there is no such header.
        probe: Whether a connection to the host is tried before the training starts.
    """

    target: ClassVar[str | None] = "url"

    url: str
    authorization: str = ""
    probe: bool = True

    def check(self) -> None:
        from leadline.actions.connectivity import check_reachable

        parts = _checked(self.url)
        if re.search(r"[\x00-\x1f\x7f]", self.authorization):
            raise ConfigurationError("webhook: authorization has a line break in it; give it in one line")
        if self.probe:
            check_reachable(parts.hostname or "", port(parts), min(self.timeout, _PROBE_SECONDS), scheme=parts.scheme)

    def describe(self, occasion: ActionContext) -> str:
        return f"would post {occasion.notice.id} to {host(urlsplit(self.url)) or self.url}"

    def run(self, occasion: ActionContext) -> Outcome:
        notice = occasion.notice
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "User-Agent": f"leadline/{__version__}",
            "Idempotency-Key": quote(f"{notice.uri}/{notice.id}", safe="/:"),
        }
        told = self._post(encode(notice.to_dict()), headers)
        return Outcome(f"posted to {host(urlsplit(self.url))}: {told}")

    def _post(self, data: bytes, headers: dict[str, str]) -> str:
        """Post, following what may be followed; the status of the success."""
        url, authorization = self.url, self.authorization or _basic(urlsplit(self.url))
        for _ in range(_MOST_REDIRECTS + 1):
            sent = {**headers, "Authorization": authorization} if authorization else headers
            answer = post(url, data, sent, self.timeout * _SOCKET_SHARE)
            if answer.status not in _SAME_REQUEST:
                return _judged(answer, url)
            onward = _onward(answer, url)
            authorization = authorization if _origin(onward) == _origin(url) else ""
            url = onward
        raise RejectedError(f"{host(urlsplit(self.url))} redirects more than {_MOST_REDIRECTS} times")


def _judged(answer: HttpResponse, url: str) -> str:
    """The status where it is a success.

    Raises:
        RejectedError: It will not become one.
        RetryLaterError: It may become one.
    """
    said = f"{host(urlsplit(url))} answered {answer.told}"
    if 200 <= answer.status < 300:
        return answer.told
    if answer.status in _ANOTHER_REQUEST:
        place = urlsplit(urljoin(url, answer.headers.get("Location") or ""))
        raise RejectedError(f"{said}: it moved to {place.scheme}://{host(place)}; give the address there as the URL")
    if 400 <= answer.status < 500 and answer.status not in _LATER:
        raise RejectedError(said + answer.said())
    raise RetryLaterError(said + answer.said(), retry_after_seconds(answer.headers.get("Retry-After")))


def _onward(answer: HttpResponse, url: str) -> str:
    """Where a redirect leads.

    Raises:
        RejectedError: Nowhere that may be followed.
    """
    location = answer.headers.get("Location")
    onward = urljoin(url, location or "")
    here, there = urlsplit(url), urlsplit(onward)
    if not location or there.scheme not in PORTS or not there.hostname:
        raise RejectedError(f"{host(here)} answered {answer.told} without a place to go to")
    if here.scheme == "https" and there.scheme == "http":
        raise RejectedError(f"{host(here)} redirects from https to http ({host(there)}), which is not followed")
    return onward


def retry_after_seconds(text: str | None) -> float | None:
    """What a header Retry-After says, in seconds or as a date; None where it says nothing."""
    if not text:
        return None
    if text.strip().isdecimal():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _checked(url: str) -> SplitResult:
    """The parts of a URL that can be posted to; no error quotes it, since it may be a secret.

    Raises:
        ConfigurationError: It cannot be.
    """
    if not url or re.search(r"[\x00-\x20\x7f]", url):
        raise ConfigurationError(f"webhook: the URL is empty or has a space in it; {_FORM}")
    try:
        parts = urlsplit(url)
        number = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:
        raise ConfigurationError(f"webhook: the URL's host or port is malformed; {_FORM}") from None
    if parts.scheme not in PORTS:
        raise ConfigurationError(f"webhook: the URL begins with neither http:// nor https://; {_FORM}")
    if not parts.hostname or number == 0:
        raise ConfigurationError(f"webhook: the URL names no host; {_FORM}")
    return parts


def _basic(parts: SplitResult) -> str:
    """What user and password of a URL come to as a header."""
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, port(parts)
