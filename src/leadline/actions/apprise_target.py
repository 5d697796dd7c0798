"""One target of Apprise, such as a mailbox or a chat: its URL, sending to it, and the reason of a failure."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from leadline.actions.action import RejectedError
from leadline.errors import ConfigurationError, MissingExtraError, UnknownNameError

URL_EXAMPLE: Final = "for example notify:'mailtos://user:$PASSWORD@smtp.example.org?to=me@example.org'"
_SMS_EXAMPLE: Final = "for example notify:'sns://$KEY/$SECRET/eu-west-1/+15551234567'"
_DOCUMENTATION: Final = "see https://github.com/caronc/apprise/wiki for its form"
_SMTP: Final = frozenset({"mailto", "mailtos"})
_HTTP_PORTS: Final = {
    "json": 80,
    "jsons": 443,
    "form": 80,
    "forms": 443,
    "xml": 80,
    "xmls": 443,
    "gotify": 80,
    "gotifys": 443,
}
"""Services whose URL contains the host, with their default ports."""
_SHORT_CHARACTERS: Final = 500
"""A service with a shorter limit is treated as one for text messages."""
_MIN_SECRET_CHARACTERS: Final = 4
"""Shorter parts of a URL are not masked in messages: they are words rather than secrets."""
_MASK: Final = "****"
_RETRYABLE: Final = frozenset({408, 425, 429})
_HTTP_STATUS: Final = re.compile(r"error=(\d{3})")
_SMTP_STATUS: Final = re.compile(r"\((\d{3}), b?['\"]|refused: (\d{3}) ")
_LOGIN_UNSUPPORTED: Final = re.compile(r"(?i)no suitable authentication method|AUTH extension not supported")
_SMTP_ANSWER: Final = re.compile(r"\((\d{3}), b?(['\"])(.*?)\2")
_EMPTY: Final = frozenset({"", "b''", "{}"})
_SYSTEM: Final = re.compile(r"\[Errno -?\d+\] ([^'\")]+)")
_DETAILS: Final = re.compile(r"^(Socket Exception|Notification Exception|Response Details):\s*", re.IGNORECASE)
_MAX_CHARACTERS: Final = 300


class Service:
    """A service of Apprise, constructed from its URL for one message.

    If an instance is used twice, Apprise delays the second message by seconds even if the service does not need it.

    Raises:
        MissingExtraError: Apprise is not installed.
        UnknownNameError: There is no such service.
        ConfigurationError: The URL is incomplete; the error contains no secrets.
    """

    def __init__(self, url: str) -> None:
        apprise = _apprise()
        self.schema = _schema(url)
        self._parts = _split(url)
        self._secrets = _secrets(self._parts, self.schema)
        with _capture_log() as log_lines:
            try:
                asset = apprise.AppriseAsset(app_id="Leadline", app_desc="Leadline", app_url="", async_mode=False)
                target = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=False)
            except TypeError as error:  # raised by every version of Apprise for an incomplete URL
                log_lines.append(str(error))
                target = None
        if target is None:
            raise self._invalid_url_error(log_lines)
        self._target: Any = target

    @property
    def name(self) -> str:
        """A name without secrets: ``mail through smtp.example.org``."""
        if self.host is None:
            return self.schema
        return f"{'mail through' if self.schema in _SMTP else f'{self.schema} at'} {self.host[0]}"

    @property
    def host(self) -> tuple[str, int] | None:
        """Host and port, if the URL contains them in plain text."""
        if self.schema in _SMTP:
            return str(self._target.smtp_host), int(self._target.port)
        if self.schema in _HTTP_PORTS:
            return str(self._target.host), int(self._target.port or _HTTP_PORTS[self.schema])
        return None

    @property
    def max_characters(self) -> int | None:
        """The maximal length of a text message; None: the service takes longer texts."""
        limit = int(self._target.body_maxlen)
        return limit if 0 < limit <= _SHORT_CHARACTERS else None

    def send(self, title: str, text: str, severity: str) -> None:
        """Send a message, and wait until the service has accepted it.

        Args:
            severity: ``info``, ``success``, ``warning`` or ``failure``, for services that show one.
        Raises:
            RejectedError: It was refused for good.
            ConnectionError: It failed.
        """
        apprise = _apprise()
        sender = apprise.Apprise(asset=self._target.asset)
        sender.add(self._target)
        with _capture_log() as log_lines:
            is_sent = sender.notify(body=text, title=title, notify_type=severity, body_format="text")
        if not is_sent:
            why = f"{self.name}: {self._why(log_lines)}"
            raise RejectedError(why) if _is_final(log_lines) else ConnectionError(why)

    def _why(self, log_lines: Iterable[str]) -> str:
        """Return the reason that Apprise logged, without secrets: its details if there are any, else the message."""
        lines = list(log_lines)
        details = [_DETAILS.sub("", line) for line in lines if _DETAILS.match(line)]
        details = [detail for detail in details if detail not in _EMPTY]
        short = [reason for detail in details if (reason := _short_reason(detail))]
        messages = [line.rstrip(".") for line in lines if not _DETAILS.match(line)]
        reasons = short[:1] or [*messages[:1], *details[:1]]
        return self._mask(": ".join(reasons)) or "it failed, and Apprise gives no reason"

    def _invalid_url_error(self, log_lines: Iterable[str]) -> ConfigurationError:
        known = _services(_apprise())
        if self.schema not in known:
            return UnknownNameError("service of Apprise", self.schema, known, hint="all of them: apprise --details")
        reason = self._mask(" ".join(list(log_lines)[-1:]).rstrip("."))
        why = f" ({reason})" if reason else ""
        return ConfigurationError(f"notify: the {self.schema}:// URL is incomplete{why}; {_DOCUMENTATION}")

    def _mask(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return " ".join(text.split())[:_MAX_CHARACTERS]


def _short_reason(details: str) -> str | None:
    """Return the answer of a mail server or the operating system contained in a message; None: there is none."""
    smtp, system = _SMTP_ANSWER.search(details), _SYSTEM.search(details)
    return f"{smtp[1]} {smtp[3]}" if smtp else system[1].strip().lower() if system else None


def _is_final(log_lines: Iterable[str]) -> bool:
    """Return whether the failure is permanent: an HTTP or SMTP status that says so."""
    for line in log_lines:
        http, smtp = _HTTP_STATUS.search(line), _SMTP_STATUS.search(line)
        if http and 400 <= int(http[1]) < 500 and int(http[1]) not in _RETRYABLE:
            return True
        if (smtp and (smtp[1] or smtp[2]).startswith("5")) or _LOGIN_UNSUPPORTED.search(line):
            return True
    return False


def _apprise() -> Any:
    try:
        import apprise
    except ImportError:
        raise MissingExtraError("notify needs Apprise: pip install 'leadline[notify]'") from None
    return apprise


def _schema(url: str) -> str:
    """Return the scheme of a URL.

    Raises:
        ConfigurationError: It has none.
    """
    schema, separator, rest = url.partition("://")
    if separator and re.fullmatch(r"[\w+.-]{1,30}", schema):
        if not rest:
            raise ConfigurationError(f"notify: the {schema}:// URL has nothing after its scheme; {URL_EXAMPLE}")
        return schema.lower()
    if re.fullmatch(r"[^@\s]+@[^@\s]+", url):
        raise ConfigurationError(f"notify: a mail address alone does not name the server that sends it; {URL_EXAMPLE}")
    if re.fullmatch(r"\+?[\d -]{6,}", url):
        raise ConfigurationError(f"notify: a telephone number alone does not name the service; {_SMS_EXAMPLE}")
    raise ConfigurationError(f"notify: the target is not a URL; {URL_EXAMPLE}")


def _services(apprise: Any) -> set[str]:
    """Return the schemes of all services of Apprise."""
    services = apprise.Apprise().details()["schemas"]
    return {
        str(schema)
        for service in services
        for kind in ("protocols", "secure_protocols")
        for schema in service.get(kind) or ()
    }


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise ConfigurationError(f"notify: the URL's host is malformed; {URL_EXAMPLE}") from None


def _secrets(parts: SplitResult, schema: str) -> list[str]:
    """Return the secret parts of a URL, longest first: for mail the password, else all but a plain host."""
    login, _, place = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    secrets = [password]
    if schema not in _SMTP:
        query = [value for _, value in parse_qsl(parts.query)]
        secrets += [user, *parts.path.split("/"), *query, parts.fragment]
    if schema not in _SMTP and schema not in _HTTP_PORTS:
        secrets.append(place)
    spellings = {form for text in secrets for form in (text, unquote(text), quote(unquote(text), safe=""))}
    return sorted((text for text in spellings if len(text) >= _MIN_SECRET_CHARACTERS), key=len, reverse=True)


@contextmanager
def _capture_log() -> Iterator[list[str]]:
    """Capture the log of Apprise, which is the only place where it gives the reason of a failure."""
    log_lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            message = record.getMessage()
            if record.levelno >= logging.WARNING or _DETAILS.match(message):
                log_lines.append(message)

    log, listener = logging.getLogger("apprise"), Listener(logging.DEBUG)
    level, was_propagated = log.level, log.propagate
    log.addHandler(listener)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        yield log_lines
    finally:
        log.removeHandler(listener)
        log.setLevel(level)
        log.propagate = was_propagated
