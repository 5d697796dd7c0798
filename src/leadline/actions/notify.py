"""The action notify."""

from __future__ import annotations

from typing import ClassVar, Final

from leadline.actions import message
from leadline.actions.action import Action, ActionContext, Outcome, RejectedError
from leadline.actions.apprise_target import FORM, Service
from leadline.errors import ConfigurationError
from leadline.records.notification import Notification

_PROBE_SECONDS: Final = 5.0
_sent: set[tuple[str, str, str]] = set()
"""What went out to one of several targets while another failed (run, notice, URL): a new try leaves it out."""


class Notify(Action, frozen=True, kw_only=True):
    """Tells people: by mail, text message, Slack, Teams, Telegram, Amazon SNS and whatever else Apprise knows.

    The message says what was found, where, in which run, what to try, and the first tensors with their numbers. A
    service that takes no longer texts than 500 characters gets one line. Several targets are separated by blanks, or
    named by an `--on` of their own; where one of several fails, only that one is tried again.

    A refusal is not tried again: a wrong password, an unknown recipient, a key that is not valid. The reason that
    the service gives stands in the outcome, without the secrets of the URL.

    Args:
        url: Where to, as a [URL of Apprise](https://github.com/caronc/apprise/wiki); secrets in it as `$NAME`.
        probe: Whether a connection to the host is tried before the training starts, where the URL names one in plain
            (mail, json, form, xml, gotify).
    """

    target: ClassVar[str | None] = "url"
    extra: ClassVar[str | None] = "notify"

    url: str
    probe: bool = True

    def check(self) -> None:
        from leadline.actions.connectivity import check_reachable

        services = [Service(each) for each in self._urls()]
        if not services:
            raise ConfigurationError(f"notify: the target is empty; {FORM}")
        for service in services if self.probe else ():
            if service.host:
                check_reachable(*service.host, min(self.timeout, _PROBE_SECONDS))

    def describe(self, occasion: ActionContext) -> str:
        return f"would send ({self._spoken()}): {message.title(occasion.notice)}"

    def run(self, occasion: ActionContext) -> Outcome:
        failures = [error for url in self._urls() if (error := _tell(url, occasion.notice))]
        if failures:
            why = "; ".join(map(str, failures))
            is_final = all(isinstance(each, RejectedError) for each in failures)
            raise RejectedError(why) if is_final else ConnectionError(why)
        return Outcome(f"sent: {self._spoken()}")

    def _urls(self) -> list[str]:
        return self.url.split()

    def _spoken(self) -> str:
        return ", ".join(each if each.startswith("$") else Service(each).name for each in self._urls())


def _tell(url: str, notice: Notification) -> Exception | None:
    """Tell one target, unless it was told; what went wrong is a value, since the others are told all the same."""
    key = (notice.uri, notice.id, url)
    if key in _sent:
        return None
    service = Service(url)
    limit = service.most_characters
    title, text = (message.title(notice), message.text(notice)) if limit is None else ("", message.short(notice, limit))
    try:
        service.send(title, text, _severity(notice))
    except (RejectedError, ConnectionError) as error:
        return error
    _sent.add(key)
    return None


def _severity(notice: Notification) -> str:
    if notice.status in ("Error", "Failed"):
        return "failure"
    if notice.kind == "finding" or notice.status in ("IssuesFound", "Stopped", "Interrupted"):
        return "warning"
    return "success" if notice.status in ("NoIssuesFound", "Completed") else "info"
