"""One HTTP exchange: something posted, and what came back."""

from __future__ import annotations

import http.client
import re
import urllib.request
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

PORTS: Final = {"http": 80, "https": 443}
_ANSWER_BYTES: Final = 2000
_SPELLED: Final = "%/:?#[]@!$&'()*+,;=~-._"
"""What stands in a URL as it is."""
_HTML: Final = re.compile(r"\s*<!?[a-z]", re.IGNORECASE)


class HttpResponse:
    """What a server answered."""

    def __init__(self, status: int, response: http.client.HTTPResponse | HTTPError) -> None:
        self.status = status
        self.headers = response.headers
        self.told = f"{status} {response.reason or ''}".strip()
        """The status in words: ``404 Not Found``."""
        self._text = _read(response)

    def said(self) -> str:
        """What came, in one line; it is cut later, since half a secret would not be known for one."""
        text = re.sub(r"<[^>]*>", " ", self._text) if _HTML.match(self._text) else self._text
        words = " ".join(text.split())
        return f": {words}" if words else ""


def _read(response: http.client.HTTPResponse | HTTPError) -> str:
    """The beginning of what came; "" where it broke off: the status is known, and decides."""
    try:
        return response.read(_ANSWER_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return ""


class _Unfollowed(urllib.request.HTTPRedirectHandler):
    """Gives redirects back: the library would turn a POST into a GET, and send authorization along."""

    def redirect_request(self, *_: object) -> None:
        return None


def post(url: str, data: bytes, headers: dict[str, str], timeout_seconds: float) -> HttpResponse:
    """Post once, and give what came back, whatever its status; a redirect is not followed.

    Args:
        timeout_seconds: How long one wait may take, for the connection or for a part of the answer.
    Raises:
        ConnectionError: There was no answer.
        TimeoutError: There was none in time.
    """
    parts = urlsplit(url)
    path, query = quote(parts.path, safe=_SPELLED), quote(parts.query, safe=_SPELLED)
    bare = urlunsplit(parts._replace(netloc=host(parts), path=path, query=query, fragment=""))
    request = urllib.request.Request(bare, data, headers, method="POST")
    try:
        with urllib.request.build_opener(_Unfollowed).open(request, timeout=timeout_seconds) as response:
            return HttpResponse(response.status, response)
    except HTTPError as error:
        with error:
            return HttpResponse(error.code, error)
    except TimeoutError as error:
        raise _too_late(parts, timeout_seconds) from error
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _too_late(parts, timeout_seconds) from error
        raise ConnectionError(f"{host(parts)}: {_why(error.reason)}") from error
    except http.client.HTTPException as error:
        if not isinstance(error, http.client.RemoteDisconnected):
            raise ConnectionError(f"{host(parts)} answered, but not in HTTP") from error
        raise ConnectionError(f"{host(parts)} ended the connection without an answer") from error
    except OSError as error:
        raise ConnectionError(f"{host(parts)} ended the connection without an answer: {_why(error)}") from error


def port(parts: SplitResult) -> int:
    """The port of a URL, or that of its scheme."""
    return parts.port or PORTS[parts.scheme]


def host(parts: SplitResult) -> str:
    """Host and port without user and password: all of a URL that may be told."""
    return parts.netloc.rpartition("@")[2]


def _too_late(parts: SplitResult, seconds: float) -> TimeoutError:
    return TimeoutError(f"{host(parts)} did not answer within {seconds:g} s")


def _why(reason: object) -> str:
    """An operating system's reason without its number: ``connection refused``."""
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return text[:1].lower() + text[1:] if text[1:2].islower() else text
