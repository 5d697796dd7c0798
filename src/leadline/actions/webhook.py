"""The action webhook."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import ClassVar, Final
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from leadline.actions.action import Action, ActionContext, Outcome, RejectedError
from leadline.actions.http_client import (
    PORTS,
    HttpResponse,
    check_reachable,
    host,
    port,
    post,
    status_error,
    status_text,
)
from leadline.errors import ConfigurationError
from leadline.records.version import __version__
from leadline.store.documents import encode

_PRESERVING_REDIRECTS: Final = frozenset({307, 308})
"""Redirects that keep the method and the body."""
_OTHER_REDIRECTS: Final = frozenset({300, 301, 302, 303})
"""Redirects after which a POST would become a GET without the notification."""
_MAX_REDIRECTS: Final = 3
_PROBE_SECONDS: Final = 5.0
_SOCKET_SHARE: Final = 0.9
"""The share of the time limit for the socket: a server that hangs is reported before the attempt is killed."""
_URL_EXAMPLE: Final = "write webhook:https://host/path"


class Webhook(Action, frozen=True, kw_only=True):
    """Posts every notification as JSON to a URL.

    The fields of the JSON document are described in [events.md](events.md).

    A status from 200 to 299 is a success. Statuses from 400 to 499 except 408, 425 and 429 are refusals and not
    retried; all others are retried, not before the time that the server gives as `Retry-After`. Redirects that keep
    the request (307, 308) are followed, at most 3, never from https to http, and without `authorization` to another
    host; others are refused, and the outcome contains the new address.

    The header `Idempotency-Key` is the same at every attempt, so that a receiver can ignore a notification that it has
    received already: what was delivered when the connection broke is delivered again. The proxy of the environment is
    used, as in the Python standard library.

    Args:
        url: The http or https URL; one with a secret in it as `$NAME`.
        authorization: The header `Authorization`: `Bearer $TOKEN`; empty: no such header.
        probe: Whether to test the connection to the host before the training starts.
    """

    target: ClassVar[str | None] = "url"

    url: str
    authorization: str = ""
    probe: bool = True

    def check(self) -> None:
        parts = _parse_url(self.url)
        if re.search(r"[\x00-\x1f\x7f]", self.authorization):
            raise ConfigurationError("webhook: authorization has a line break in it; give it in one line")
        if self.probe and not self.dry_run:
            check_reachable(parts.hostname or "", port(parts), min(self.timeout, _PROBE_SECONDS), scheme=parts.scheme)

    def describe(self, context: ActionContext) -> str:
        return f"would post {context.notification.id} to {host(urlsplit(self.url)) or self.url}"

    def run(self, context: ActionContext) -> Outcome:
        notification = context.notification
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "User-Agent": f"leadline/{__version__}",
            "Idempotency-Key": quote(f"{notification.uri}/{notification.id}", safe="/:"),
        }
        status = self.send(encode(notification.to_dict()), headers)
        return Outcome(f"posted to {host(urlsplit(self.url))}: {status}")

    def send(self, data: bytes, headers: dict[str, str]) -> str:
        """Post, following permitted redirects, and return the status of the success.

        Raises:
            RejectedError: The request was refused for good.
            RetryLaterError: A retry may succeed.
        """
        url, authorization = self.url, self.authorization or _basic_auth(urlsplit(self.url))
        for _ in range(_MAX_REDIRECTS + 1):
            sent = {**headers, "Authorization": authorization} if authorization else headers
            answer = post(url, data, sent, self.timeout * _SOCKET_SHARE)
            if answer.status not in _PRESERVING_REDIRECTS:
                return _check_response(answer, url)
            target = _redirect_target(answer, url)
            authorization = authorization if _origin(target) == _origin(url) else ""
            url = target
        raise RejectedError(f"{host(urlsplit(self.url))} redirects more than {_MAX_REDIRECTS} times")


def _check_response(answer: HttpResponse, url: str) -> str:
    """Return the status of a success.

    Raises:
        RejectedError: The request was refused for good.
        RetryLaterError: A retry may succeed.
    """
    place = host(urlsplit(url))
    if 200 <= answer.status < 300:
        return status_text(answer.status)
    if answer.status in _OTHER_REDIRECTS:
        location = urlsplit(urljoin(url, answer.headers.get("Location") or ""))
        address = f"{location.scheme}://{host(location)}"
        raise RejectedError(
            f"{place} answered {status_text(answer.status)}: it moved to {address}; use the new address as the URL"
        )
    raise status_error(place, answer.status, retry_after_seconds(answer.headers.get("Retry-After")))


def _redirect_target(answer: HttpResponse, url: str) -> str:
    """Return the URL that a redirect leads to.

    Raises:
        RejectedError: It must not be followed.
    """
    location = answer.headers.get("Location")
    target = urljoin(url, location or "")
    here, there = urlsplit(url), urlsplit(target)
    if not location or there.scheme not in PORTS or not there.hostname:
        raise RejectedError(f"{host(here)} answered {status_text(answer.status)} without a valid location")
    if here.scheme == "https" and there.scheme == "http":
        raise RejectedError(f"{host(here)} redirects from https to http ({host(there)}), which is not followed")
    return target


def retry_after_seconds(text: str | None) -> float | None:
    """Return the value of a Retry-After header, in seconds or as a date; None: it is absent or invalid."""
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


def _parse_url(url: str) -> SplitResult:
    """Parse a URL; no error contains it, since it may be a secret.

    Raises:
        ConfigurationError: It is invalid.
    """
    if not url or re.search(r"[\x00-\x20\x7f]", url):
        raise ConfigurationError(f"webhook: the URL is empty or contains a space; {_URL_EXAMPLE}")
    try:
        parts = urlsplit(url)
        number = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:
        raise ConfigurationError(f"webhook: the URL's host or port is malformed; {_URL_EXAMPLE}") from None
    if parts.scheme not in PORTS:
        raise ConfigurationError(f"webhook: the URL must begin with http:// or https://; {_URL_EXAMPLE}")
    if not parts.hostname or number == 0:
        raise ConfigurationError(f"webhook: the URL has no host; {_URL_EXAMPLE}")
    return parts


def _basic_auth(parts: SplitResult) -> str:
    """Return the Authorization header for user and password of a URL."""
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _origin(url: str) -> tuple[str, str | None, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, port(parts)
