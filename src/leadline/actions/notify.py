"""The action notify, and the targets of Apprise that it sends to."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Literal

from leadline.actions import message
from leadline.actions.action import Action, ActionContext, Outcome, RejectedError, RetryLaterError
from leadline.actions.http_client import check_reachable, is_refusal, status_text
from leadline.errors import ConfigurationError, MissingExtraError, UnknownNameError
from leadline.records.notification import Notification

_PROBE_SECONDS: Final = 5.0
_sent: set[tuple[str, str, str]] = set()
"""What was sent to one of several targets while another failed (run, notification, URL): not sent again in a retry."""
URL_EXAMPLE: Final = (
    "for example notify:'mailto://localhost:25?to=me@example.org', "
    "or notify:'mailtos://user:$PASSWORD@smtp.example.org?to=me@example.org'"
)
_SMS_EXAMPLE: Final = "for example notify:'sns://$KEY/$SECRET/eu-west-1/+15551234567'"
_DOCUMENTATION: Final = "see https://github.com/caronc/apprise/wiki for its form"
_SMTP: Final = frozenset({"mailto", "mailtos"})
_PARAMETER: Final = re.compile(r"(?:^|&)(\w[^=&]*)")
"""A parameter in the query of a URL; those that begin with another character are headers."""
_RECIPIENT: Final = re.compile(r"[?&](?:to|cc|bcc)=.|//[^/?]+/[^?]", re.IGNORECASE)
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
_HTTP_STATUS: Final = re.compile(r"error=(\d{3})")
_SMTP_STATUS: Final = re.compile(r"\((\d{3}), b?['\"]|refused: (\d{3}) ")
_LOGIN_UNSUPPORTED: Final = re.compile(r"(?i)no suitable authentication method|AUTH extension not supported")
_SYSTEM_ERROR: Final = re.compile(r"\[Errno (\d+)\]")
_EXCEPTIONS: Final = ("socket exception", "notification exception")
"""Debug messages of Apprise that tell why a message was not sent; others contain the message itself."""
_SMTP_MEANINGS: Final = {
    "421": "service not available",
    "450": "mailbox unavailable",
    "530": "authentication required",
    "535": "authentication failed",
    "550": "mailbox unavailable or not permitted",
    "552": "message too large",
    "553": "mailbox name not allowed",
    "554": "transaction failed",
}


class Notify(Action, frozen=True, kw_only=True):
    """Notifies people by mail, text message, Slack, Teams, Telegram, Amazon SNS or any other service of Apprise.

    The message contains the finding, its place and run, what to try, and the first tensors with their statistics. A
    service whose texts are limited to 500 characters gets one line. Several targets are separated by blanks, or given
    by separate `--on` options; if one of several fails, only that one is retried.

    A refusal is not retried: a wrong password, an unknown recipient, an invalid key. The outcome contains the status
    with which the service answered; its own words are not shown, since they may repeat the secrets of the URL.

    Args:
        url: The target as a [URL of Apprise](https://github.com/caronc/apprise/wiki); secrets in it as `$NAME`.
        probe: Whether to test the connection to the host before the training starts, if the URL contains it in plain
            text (mail, json, form, xml, gotify).
        episodes: ``once``: each rule sends one message in a run, for its first finding; ``every``: for every finding.
    """

    target: ClassVar[str | None] = "url"
    extra: ClassVar[str | None] = "notify"

    url: str
    probe: bool = True
    episodes: Literal["every", "once"] = "once"

    def check(self) -> None:
        services = [Service(url) for url in self._urls()]
        if not services:
            raise ConfigurationError(f"notify: the target is empty; {URL_EXAMPLE}")
        for service in services if self.probe and not self.dry_run else ():
            if service.host:
                check_reachable(*service.host, min(self.timeout, _PROBE_SECONDS))

    def describe(self, context: ActionContext) -> str:
        return f"would send ({self._target_names()}): {message.title(context.notification)}"

    def run(self, context: ActionContext) -> Outcome:
        failures = [error for url in self._urls() if (error := _send(url, context.notification))]
        if failures:
            why = "; ".join(map(str, failures))
            is_final = all(isinstance(error, RejectedError) for error in failures)
            raise RejectedError(why) if is_final else RetryLaterError(why)
        return Outcome(f"sent: {self._target_names()}")

    def _urls(self) -> list[str]:
        return self.url.split()

    def _target_names(self) -> str:
        return ", ".join(url if url.startswith("$") else Service(url).name for url in self._urls())


def _send(url: str, notification: Notification) -> Exception | None:
    """Send to one target unless that was done already; return the error, since the others are sent to anyway."""
    key = (notification.uri, notification.id, url)
    if key in _sent:
        return None
    service = Service(url)
    limit = service.max_characters
    title, text = (
        (message.title(notification), message.text(notification))
        if limit is None
        else ("", message.short(notification, limit))
    )
    try:
        service.send(title, text, _severity(notification))
    except (RejectedError, RetryLaterError) as error:
        return error
    _sent.add(key)
    return None


def _severity(notification: Notification) -> str:
    if notification.status in ("Error", "Failed"):
        return "failure"
    if notification.kind == "finding" or notification.status in ("IssuesFound", "Stopped", "Interrupted"):
        return "warning"
    return "success" if notification.status in ("NoIssuesFound", "Completed") else "info"


class Service:
    """A service of Apprise, constructed from its URL for one message.

    If an instance is used twice, Apprise delays the second message by seconds even if the service does not need it.

    Raises:
        MissingExtraError: Apprise is not installed.
        UnknownNameError: There is no such service.
        ConfigurationError: The URL is incomplete.
    """

    def __init__(self, url: str) -> None:
        apprise = _apprise()
        self.schema = _schema(url)
        with _capture_log():
            asset = apprise.AppriseAsset(app_id="Leadline", app_desc="Leadline", app_url="", async_mode=False)
            self._target: Any = apprise.Apprise.instantiate(url, asset=asset)
        if self._target is None:
            raise self._invalid_url_error()
        if self.schema in _SMTP:
            self._check_mail(url)

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
            RetryLaterError: It failed, and a retry may succeed.
        """
        apprise = _apprise()
        sender = apprise.Apprise(asset=self._target.asset)
        sender.add(self._target)
        with _capture_log() as log_lines:
            is_sent = sender.notify(body=text, title=title, notify_type=severity, body_format="text")
        if not is_sent:
            why, is_final = _failure("\n".join(log_lines))
            raise (RejectedError if is_final else RetryLaterError)(f"{self.name}: {why}")

    def _check_mail(self, url: str) -> None:
        """Refuse what Apprise ignores, so that a mail would go to nobody who reads it."""
        known = {str(name) for name in type(self._target).template_args}
        for name in _PARAMETER.findall(url.partition("?")[2]):
            if name.lower() not in known:
                raise UnknownNameError(f"parameter of {self.schema}://", name, known)
        if not self._target.user and not _RECIPIENT.search(url):
            raise ConfigurationError(f"notify: the {self.schema}:// URL names no recipient; {URL_EXAMPLE}")

    def _invalid_url_error(self) -> ConfigurationError:
        known = _services(_apprise())
        if self.schema not in known:
            return UnknownNameError("service of Apprise", self.schema, known, hint="all of them: apprise --details")
        return ConfigurationError(f"notify: the {self.schema}:// URL is incomplete or malformed; {_DOCUMENTATION}")


def _failure(log: str) -> tuple[str, bool]:
    """Return why a message was not sent, and whether a retry would not help.

    The log of Apprise holds the reason, but may repeat the secrets of the URL: only its numbers are used.
    """
    http, smtp, system = _HTTP_STATUS.search(log), _SMTP_STATUS.search(log), _SYSTEM_ERROR.search(log)
    if smtp:
        code = smtp[1] or smtp[2]
        meaning = _SMTP_MEANINGS.get(code)
        return f"answered {code} ({meaning})" if meaning else f"answered {code}", code.startswith("5")
    if _LOGIN_UNSUPPORTED.search(log):
        return "the server does not support AUTH, and the URL has a login", True
    if http:
        return f"answered {status_text(int(http[1]))}", is_refusal(int(http[1]))
    if system:
        return os.strerror(int(system[1])).lower(), False
    return ("timed out" if "timed out" in log else "Apprise could not send the message"), False


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


@contextmanager
def _capture_log() -> Iterator[list[str]]:
    """Capture the log of Apprise, which is the only place where it gives the reason of a failure."""
    log_lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            message = record.getMessage()
            if record.levelno >= logging.WARNING or message.lower().startswith(_EXCEPTIONS):
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
