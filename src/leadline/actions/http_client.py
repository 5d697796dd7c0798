"""An HTTP client for one POST request and its response."""

from __future__ import annotations

import http.client
import re
import urllib.request
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

PORTS: Final = {"http": 80, "https": 443}
_MAX_RESPONSE_BYTES: Final = 2000
_SAFE_CHARACTERS: Final = "%/:?#[]@!$&'()*+,;=~-._"
"""Characters that are not quoted in a URL."""
_HTML: Final = re.compile(r"\s*<!?[a-z]", re.IGNORECASE)


class HttpResponse:
    """The response of a server."""

    def __init__(self, status: int, response: http.client.HTTPResponse | HTTPError) -> None:
        self.status = status
        self.headers = response.headers
        self.status_text = f"{status} {response.reason or ''}".strip()
        """Status and reason: ``404 Not Found``."""
        self._text = _read(response)

    def body_text(self) -> str:
        """Return the body in one line, uncut: a secret that is cut in half could not be masked any more."""
        text = re.sub(r"<[^>]*>", " ", self._text) if _HTML.match(self._text) else self._text
        line = " ".join(text.split())
        return f": {line}" if line else ""


def _read(response: http.client.HTTPResponse | HTTPError) -> str:
    """Return the beginning of the body; empty if the connection broke: the status is known, and decides."""
    try:
        return response.read(_MAX_RESPONSE_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return ""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Returns redirects unfollowed: urllib would turn a POST into a GET, and pass the authorization on."""

    def redirect_request(self, *_: object) -> None:
        return None


def post(url: str, data: bytes, headers: dict[str, str], timeout_seconds: float) -> HttpResponse:
    """Post once, and return the response with any status; redirects are not followed.

    Args:
        timeout_seconds: The time limit of each wait, for the connection or for a part of the response.
    Raises:
        ConnectionError: There was no response.
        TimeoutError: There was no response in time.
    """
    parts = urlsplit(url)
    path, query = quote(parts.path, safe=_SAFE_CHARACTERS), quote(parts.query, safe=_SAFE_CHARACTERS)
    bare = urlunsplit(parts._replace(netloc=host(parts), path=path, query=query, fragment=""))
    request = urllib.request.Request(bare, data, headers, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=timeout_seconds) as response:
            return HttpResponse(response.status, response)
    except HTTPError as error:
        with error:
            return HttpResponse(error.code, error)
    except TimeoutError as error:
        raise _timeout_error(parts, timeout_seconds) from error
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _timeout_error(parts, timeout_seconds) from error
        raise ConnectionError(f"{host(parts)}: {_why(error.reason)}") from error
    except http.client.HTTPException as error:
        if not isinstance(error, http.client.RemoteDisconnected):
            raise ConnectionError(f"{host(parts)} sent a response that is not HTTP") from error
        raise ConnectionError(f"{host(parts)} closed the connection without a response") from error
    except OSError as error:
        raise ConnectionError(f"{host(parts)} closed the connection without a response: {_why(error)}") from error


def port(parts: SplitResult) -> int:
    """Return the port of a URL, or the default of its scheme."""
    return parts.port or PORTS[parts.scheme]


def host(parts: SplitResult) -> str:
    """Return host and port without user and password: the part of a URL that may be shown."""
    return parts.netloc.rpartition("@")[2]


def _timeout_error(parts: SplitResult, seconds: float) -> TimeoutError:
    return TimeoutError(f"{host(parts)} did not answer within {seconds:g} s")


def _why(reason: object) -> str:
    """Return the message of an error without its number: ``connection refused``."""
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
