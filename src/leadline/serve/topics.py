"""Topics of Amazon SNS: subscriptions, and messages to them by Apprise or to a webhook."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from leadline.actions.notify import Service
from leadline.actions.webhook import Webhook
from leadline.config.variables import resolve
from leadline.errors import ConfigurationError
from leadline.records.decoding import StrictDocument
from leadline.records.json_object import JsonObject
from leadline.serve.api_error import ApiError
from leadline.serve.job_queue import ServerSettings
from leadline.serve.outbox import Outbox
from leadline.serve.run_configuration import ADDRESS
from leadline.store.documents import read_document, write_document

_FILE: Final = "topics.json"
_HTTP: Final = ("http", "https")
_TIMEOUT_SECONDS: Final = 10.0
_SEVERITY: Final = "warning"
_SAMPLE: Final = {"email": "someone@example.org", "sms": "+15551234567"}
"""An address with which a target is checked."""


@dataclass(frozen=True, slots=True)
class Subscription(StrictDocument):
    """Somebody who receives the messages of a topic."""

    arn: str
    topic: str
    protocol: str
    """``email``, ``sms``, ``http`` or ``https``."""
    endpoint: str
    policy: JsonObject = field(default_factory=dict)
    """The values that attributes of a message must have, by attribute; empty: every message is received."""

    def receives(self, attributes: Mapping[str, str]) -> bool:
        """Return whether it receives a message with these attributes."""
        return all(attributes.get(name) in values for name, values in self.policy.items())


@dataclass(frozen=True, slots=True)
class _Document(StrictDocument):
    """``topics.json`` in the folder of the server."""

    topics: tuple[str, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()


@dataclass(frozen=True, slots=True)
class Message:
    """What is published to a topic."""

    text: str
    subject: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


class Topics:
    """The topics of a server, and who has subscribed to them.

    Args:
        environment: The variables that the targets of mails and text messages name.
    """

    def __init__(self, settings: ServerSettings, environment: Mapping[str, str]) -> None:
        self._settings, self._environment = settings, environment
        self._path = os.path.join(settings.folder, _FILE)
        document = read_document(self._path)
        self._document = _Document() if document is None else _Document.from_dict(document)
        self._outbox = Outbox("messages of topics")

    @property
    def protocols(self) -> tuple[str, ...]:
        """How messages can be received."""
        return (*self._settings.targets, *_HTTP)

    def check(self) -> None:
        """Check that mails and text messages can be sent.

        Raises:
            ConfigurationError: A target is malformed, or names a variable that is not set.
            MissingExtraError: Apprise is not installed.
        """
        for protocol in self._settings.targets:
            self._service(protocol, _SAMPLE[protocol])

    def create(self, name: str) -> str:
        """Create a topic, unless it exists, and return its ARN."""
        arn = f"arn:aws:sns:{self._settings.region}:{self._settings.account}:{name}"
        if arn not in self._document.topics:
            self._write(replace(self._document, topics=(*self._document.topics, arn)))
        return arn

    def delete(self, topic: str) -> None:
        """Delete a topic with its subscriptions, if there is one."""
        left = tuple(one for one in self._document.subscriptions if one.topic != topic)
        topics = tuple(arn for arn in self._document.topics if arn != topic)
        self._write(_Document(topics, left))

    def list(self) -> tuple[str, ...]:
        """Return the ARNs of all topics."""
        return self._document.topics

    def subscriptions(self, topic: str | None = None) -> tuple[Subscription, ...]:
        """Return the subscriptions of a topic, or all of them."""
        return tuple(one for one in self._document.subscriptions if topic in (None, one.topic))

    def subscribe(self, topic: str, protocol: str, endpoint: str, policy: JsonObject) -> str:
        """Add a subscription, which needs no confirmation, and return its ARN; there is one for each endpoint."""
        known = self._document.subscriptions
        found = next(
            (one for one in known if (one.topic, one.protocol, one.endpoint) == (topic, protocol, endpoint)), None
        )
        if found is not None:
            return found.arn
        if protocol in _HTTP:
            self._webhook(endpoint)
        added = Subscription(f"{topic}:{uuid.uuid4()}", topic, protocol, endpoint, policy)
        self._write(replace(self._document, subscriptions=(*known, added)))
        return added.arn

    def unsubscribe(self, arn: str) -> None:
        """Remove a subscription, if there is one."""
        left = tuple(one for one in self._document.subscriptions if one.arn != arn)
        self._write(replace(self._document, subscriptions=left))

    def publish(self, topic: str, message: Message) -> None:
        """Send a message to all subscriptions of a topic that receive it."""
        for subscription in self.subscriptions(topic):
            if subscription.receives(message.attributes):
                self._send(subscription, topic, message)

    def send_text(self, number: str, message: Message) -> None:
        """Send a text message to a number that needs no subscription."""
        self._send(Subscription("", "", "sms", number), "", message)

    def close(self) -> None:
        """Send what waits, and end."""
        self._outbox.close()

    def _send(self, to: Subscription, topic: str, message: Message) -> None:
        def send() -> None:
            if to.protocol in _HTTP:
                headers = {
                    "Content-Type": "text/plain; charset=UTF-8",
                    "x-amz-sns-message-type": "Notification",
                    "x-amz-sns-message-id": message.id,
                    "x-amz-sns-topic-arn": topic,
                    "x-amz-sns-subscription-arn": to.arn,
                }
                self._webhook(to.endpoint).send(json.dumps(body).encode(), headers)
            else:
                service = self._service(to.protocol, to.endpoint)
                service.send(
                    "" if to.protocol == "sms" else message.subject, _fitting(message.text, service), _SEVERITY
                )

        body = {
            "Type": "Notification",
            "MessageId": message.id,
            "TopicArn": topic,
            "Subject": message.subject,
            "Message": message.text,
            "Timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "MessageAttributes": {key: {"Type": "String", "Value": text} for key, text in message.attributes.items()},
        }
        self._outbox.add(f"a message of {topic or 'Publish'} by {to.protocol}", send)

    def _service(self, protocol: str, address: str) -> Service:
        """Return what sends mails or text messages to an address.

        Raises:
            ConfigurationError: The target is malformed, or names a variable that is not set.
            MissingExtraError: Apprise is not installed.
        """
        target = self._settings.targets[protocol].replace(ADDRESS, quote(address, safe="@"))
        parameters, _ = resolve({"url": target}, self._environment)
        return Service(parameters["url"])

    def _webhook(self, url: str) -> Webhook:
        try:
            webhook = Webhook(url=url, probe=False, timeout=_TIMEOUT_SECONDS)
            webhook.check()
        except ConfigurationError as error:
            raise ApiError("InvalidParameter", f"Invalid parameter: Endpoint: {error}") from None
        return webhook

    def _write(self, document: _Document) -> None:
        """Record another state.

        Raises:
            OSError: It cannot be written; the state stays as it was.
        """
        write_document(self._path, document)
        self._document = document


def _fitting(text: str, service: Service) -> str:
    limit = service.max_characters
    return text if limit is None or len(text) <= limit else f"{text[: limit - 1]}…"
