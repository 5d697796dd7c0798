"""One target of Apprise: a mailbox, a chat, a telephone; sending to it, and why that failed."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from leadline.actions.action import RejectedError
from leadline.errors import ConfigurationError, MissingExtraError, UnknownNameError

FORM: Final = "for example notify:'mailtos://user:$PASSWORD@smtp.example.org?to=me@example.org'"
_SMS_FORM: Final = "for example notify:'sns://$KEY/$SECRET/eu-west-1/+15551234567'"
_PAGES: Final = "its form stands at https://github.com/caronc/apprise/wiki"
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
"""Services whose URL has the host in its place, with their ports."""
_SHORT_CHARACTERS: Final = 500
"""A service that takes no longer texts is one for text messages."""
_LEAST_SECRET_CHARACTERS: Final = 4
"""Shorter parts of a URL are left in messages: they are words rather than secrets."""
_MASK: Final = "****"
_LATER: Final = frozenset({408, 425, 429})
_HTTP_STATUS: Final = re.compile(r"error=(\d{3})")
_SMTP_STATUS: Final = re.compile(r"\((\d{3}), b?['\"]|refused: (\d{3}) ")
_NO_LOGIN: Final = re.compile(r"(?i)no suitable authentication method|AUTH extension not supported")
_SMTP_ANSWER: Final = re.compile(r"\((\d{3}), b?(['\"])(.*?)\2")
_EMPTY: Final = frozenset({"", "b''", "{}"})
_SYSTEM: Final = re.compile(r"\[Errno -?\d+\] ([^'\")]+)")
_DETAILS: Final = re.compile(r"^(Socket Exception|Notification Exception|Response Details):\s*", re.IGNORECASE)
_MOST_CHARACTERS: Final = 300


class Service:
    """A target that a URL of Apprise means, made for one message.

    Of one that is used again, Apprise holds each message back for seconds, whether the service wants it or not.

    Raises:
        MissingExtraError: Apprise is not installed.
        UnknownNameError: There is no such service.
        ConfigurationError: The URL lacks something; no error tells its secrets.
    """

    def __init__(self, url: str) -> None:
        apprise = _apprise()
        self.schema = _schema(url)
        self._parts = _split(url)
        self._secrets = _secrets(self._parts, self.schema)
        with _listening() as heard:
            try:
                asset = apprise.AppriseAsset(app_id="Leadline", app_desc="Leadline", app_url="", async_mode=False)
                made = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=False)
            except TypeError as error:  # what Apprise raises for a URL that lacks something, in all its versions
                heard.append(str(error))
                made = None
        if made is None:
            raise self._malformed(heard)
        self._made: Any = made

    @property
    def name(self) -> str:
        """What it is, without secrets: ``mail through smtp.example.org``."""
        if self.host is None:
            return self.schema
        return f"{'mail through' if self.schema in _SMTP else f'{self.schema} at'} {self.host[0]}"

    @property
    def host(self) -> tuple[str, int] | None:
        """Host and port, where the URL has them in plain."""
        if self.schema in _SMTP:
            return str(self._made.smtp_host), int(self._made.port)
        if self.schema in _HTTP_PORTS:
            return str(self._made.host), int(self._made.port or _HTTP_PORTS[self.schema])
        return None

    @property
    def most_characters(self) -> int | None:
        """The length of a text message, where it takes nothing longer."""
        limit = int(self._made.body_maxlen)
        return limit if 0 < limit <= _SHORT_CHARACTERS else None

    def send(self, title: str, text: str, severity: str) -> None:
        """Send, and wait for the other side to have taken it.

        Args:
            severity: ``info``, ``success``, ``warning`` or ``failure``, where the service shows such a thing.
        Raises:
            RejectedError: It was refused for good.
            ConnectionError: It failed.
        """
        apprise = _apprise()
        sender = apprise.Apprise(asset=self._made.asset)
        sender.add(self._made)
        with _listening() as heard:
            is_sent = sender.notify(body=text, title=title, notify_type=severity, body_format="text")
        if not is_sent:
            why = f"{self.name}: {self._why(heard)}"
            raise RejectedError(why) if _is_final(heard) else ConnectionError(why)

    def _why(self, heard: Iterable[str]) -> str:
        """What Apprise said, without the secrets of the URL: the details where there are any, else the complaint."""
        lines = list(heard)
        details = [_DETAILS.sub("", each) for each in lines if _DETAILS.match(each)]
        details = [each for each in details if each not in _EMPTY]
        short = [shortened for each in details if (shortened := _shortened(each))]
        complaints = [each.rstrip(".") for each in lines if not _DETAILS.match(each)]
        said = short[:1] or [*complaints[:1], *details[:1]]
        return self._told(": ".join(said)) or "it failed, and Apprise does not say why"

    def _malformed(self, heard: Iterable[str]) -> ConfigurationError:
        known = _services(_apprise())
        if self.schema not in known:
            return UnknownNameError("service of Apprise", self.schema, known, hint="all of them: apprise --details")
        said = self._told(" ".join(list(heard)[-1:]).rstrip("."))
        why = f" ({said})" if said else ""
        return ConfigurationError(f"notify: the {self.schema}:// URL lacks something{why}; {_PAGES}")

    def _told(self, said: str) -> str:
        for secret in self._secrets:
            said = said.replace(secret, _MASK)
        return " ".join(said.split())[:_MOST_CHARACTERS]


def _shortened(details: str) -> str | None:
    """What a mail server or the operating system said, out of what Python makes of it; None: neither did."""
    smtp, system = _SMTP_ANSWER.search(details), _SYSTEM.search(details)
    return f"{smtp[1]} {smtp[3]}" if smtp else system[1].strip().lower() if system else None


def _is_final(heard: Iterable[str]) -> bool:
    """Whether what went wrong will go wrong again: a refusal of HTTP or SMTP that is meant for good."""
    for line in heard:
        http, smtp = _HTTP_STATUS.search(line), _SMTP_STATUS.search(line)
        if http and 400 <= int(http[1]) < 500 and int(http[1]) not in _LATER:
            return True
        if (smtp and (smtp[1] or smtp[2]).startswith("5")) or _NO_LOGIN.search(line):
            return True
    return False


def _apprise() -> Any:
    try:
        import apprise
    except ImportError:
        raise MissingExtraError("notify needs Apprise: pip install 'leadline[notify]'") from None
    return apprise


def _schema(url: str) -> str:
    """What a URL begins with.

    Raises:
        ConfigurationError: It is none.
    """
    schema, separator, rest = url.partition("://")
    if separator and re.fullmatch(r"[\w+.-]{1,30}", schema):
        if not rest:
            raise ConfigurationError(f"notify: the {schema}:// URL is empty behind its beginning; {FORM}")
        return schema.lower()
    if re.fullmatch(r"[^@\s]+@[^@\s]+", url):
        raise ConfigurationError(f"notify: a bare mail address does not say which server sends it; {FORM}")
    if re.fullmatch(r"\+?[\d -]{6,}", url):
        raise ConfigurationError(f"notify: a bare telephone number does not say who sends the message; {_SMS_FORM}")
    raise ConfigurationError(f"notify: the target is no URL; {FORM}")


def _services(apprise: Any) -> set[str]:
    """What URLs of Apprise may begin with."""
    listed = apprise.Apprise().details()["schemas"]
    return {
        str(each)
        for service in listed
        for kind in ("protocols", "secure_protocols")
        for each in service.get(kind) or ()
    }


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise ConfigurationError(f"notify: the URL's host is malformed; {FORM}") from None


def _secrets(parts: SplitResult, schema: str) -> list[str]:
    """What of a URL must not be told, the longest first: of mail the password, else all but a plain host."""
    login, _, place = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    found = [password]
    if schema not in _SMTP:
        query = [value for _, value in parse_qsl(parts.query)]
        found += [user, *parts.path.split("/"), *query, parts.fragment]
    if schema not in _SMTP and schema not in _HTTP_PORTS:
        found.append(place)
    spelled = {way for each in found for way in (each, unquote(each), quote(unquote(each), safe=""))}
    return sorted((each for each in spelled if len(each) >= _LEAST_SECRET_CHARACTERS), key=len, reverse=True)


@contextmanager
def _listening() -> Iterator[list[str]]:
    """What Apprise logs: the only place where it says why something failed."""
    heard: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said = record.getMessage()
            if record.levelno >= logging.WARNING or _DETAILS.match(said):
                heard.append(said)

    log, listener = logging.getLogger("apprise"), Listener(logging.DEBUG)
    level, is_passed_on = log.level, log.propagate
    log.addHandler(listener)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        yield heard
    finally:
        log.removeHandler(listener)
        log.setLevel(level)
        log.propagate = is_passed_on
