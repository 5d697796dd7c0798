"""An HTTP client for one POST request, and a check of whether the host of a target answers."""

from __future__ import annotations

import http.client
import socket
import urllib.request
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from leadline.actions.action import RejectedError, RetryLaterError
from leadline.errors import ConfigurationError

PORTS: Final = {"http": 80, "https": 443}
_SAFE_CHARACTERS: Final = "%/:?#[]@!$&'()*+,;=~-._"
"""Characters that are not quoted in a URL."""
_RETRYABLE: Final = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response of a server, without its body: a server may repeat secrets of the request in it."""

    status: int
    headers: Message


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Returns redirects unfollowed: urllib would turn a POST into a GET, and pass the authorization on."""

    def redirect_request(self, *_: object) -> None:
        return None


def post(url: str, data: bytes, headers: dict[str, str], timeout_seconds: float) -> HttpResponse:
    """Post once, and return the response with any status; redirects are not followed.

    Args:
        timeout_seconds: The time limit of each wait, for the connection or for a part of the response.
    Raises:
        RetryLaterError: There was no response, or none in time.
    """
    parts = urlsplit(url)
    path, query = quote(parts.path, safe=_SAFE_CHARACTERS), quote(parts.query, safe=_SAFE_CHARACTERS)
    bare = urlunsplit(parts._replace(netloc=host(parts), path=path, query=query, fragment=""))
    request = urllib.request.Request(bare, data, headers, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=timeout_seconds) as response:
            return HttpResponse(response.status, response.headers)
    except HTTPError as error:
        with error:
            return HttpResponse(error.code, error.headers)
    except TimeoutError as error:
        raise _timeout_error(parts, timeout_seconds) from error
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _timeout_error(parts, timeout_seconds) from error
        raise RetryLaterError(f"{host(parts)}: {reason_of(error.reason)}") from error
    except http.client.HTTPException as error:
        if not isinstance(error, http.client.RemoteDisconnected):
            raise RetryLaterError(f"{host(parts)} sent a response that is not HTTP") from error
        raise RetryLaterError(f"{host(parts)} closed the connection without a response") from error
    except OSError as error:
        raise RetryLaterError(f"{host(parts)} closed the connection: {reason_of(error)}") from error


def port(parts: SplitResult) -> int:
    """Return the port of a URL, or the default of its scheme."""
    return parts.port or PORTS[parts.scheme]


def host(parts: SplitResult) -> str:
    """Return host and port without user and password: the part of a URL that may be shown."""
    return parts.netloc.rpartition("@")[2]


def status_text(status: int) -> str:
    """Return a status and its meaning in the standard, not in the server's words: ``404 Not Found``."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def is_refusal(status: int) -> bool:
    """Return whether a retry would not help."""
    return 400 <= status < 500 and status not in _RETRYABLE


def status_error(place: str, status: int, after_seconds: float | None = None) -> RejectedError | RetryLaterError:
    """Return the error for a status that is no success.

    Args:
        after_seconds: The pause that the server asks for.
    """
    text = f"{place} answered {status_text(status)}"
    return RejectedError(text) if is_refusal(status) else RetryLaterError(text, after_seconds)


def reason_of(error: object) -> str:
    """Return the meaning of a system error, ``connection refused``; of another error its type.

    The text of an exception is not shown: third-party code may have put a secret into it.
    """
    text = getattr(error, "strerror", None) or type(error).__name__
    return text[:1].lower() + text[1:] if text[1:2].islower() and " " in text else text


def _timeout_error(parts: SplitResult, seconds: float) -> RetryLaterError:
    return RetryLaterError(f"{host(parts)} did not answer within {seconds:g} s")


def check_reachable(host: str, port: int, timeout: float = 5.0, *, scheme: str = "") -> None:
    """Open a connection and close it again, without sending anything.

    Args:
        timeout: The time limit in seconds.
        scheme: ``http`` or ``https`` if that is the protocol: the proxy of the environment is checked instead.
    Raises:
        ConfigurationError: The host does not answer; the message says how to start anyway.
    """
    proxy = _proxy(host, scheme)
    address = proxy or (host, port)
    try:
        socket.create_connection(address, timeout).close()
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(
            f"{_format_address(*address)}{' (the proxy)' if proxy else ''} cannot be reached: {_why(error, timeout)}; "
            "correct the target, or start anyway with probe=false"
        ) from None


def _proxy(host: str, scheme: str) -> tuple[str, int] | None:
    proxy = getproxies().get(scheme, "")
    if not proxy or proxy_bypass(host):
        return None
    parts = urlsplit(proxy if "://" in proxy else f"//{proxy}")
    return (parts.hostname, parts.port or PORTS.get(parts.scheme, 80)) if parts.hostname else None


def _format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _why(error: Exception, timeout: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout:g} s"
    if isinstance(error, socket.gaierror):
        return "unknown host"
    if isinstance(error, UnicodeError):
        return "not a valid host name"
    return reason_of(error)
