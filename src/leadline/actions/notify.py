"""The action notify."""

from __future__ import annotations

from typing import ClassVar, Final

from leadline.actions import message
from leadline.actions.action import Action, ActionContext, Outcome, RejectedError, RetryLaterError
from leadline.actions.apprise_target import URL_EXAMPLE, Service
from leadline.errors import ConfigurationError
from leadline.records.notification import Notification

_PROBE_SECONDS: Final = 5.0
_sent: set[tuple[str, str, str]] = set()
"""What was sent to one of several targets while another failed (run, notification, URL): not sent again in a retry."""


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
    """

    target: ClassVar[str | None] = "url"
    extra: ClassVar[str | None] = "notify"

    url: str
    probe: bool = True

    def check(self) -> None:
        from leadline.actions.connectivity import check_reachable

        services = [Service(url) for url in self._urls()]
        if not services:
            raise ConfigurationError(f"notify: the target is empty; {URL_EXAMPLE}")
        for service in services if self.probe else ():
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
