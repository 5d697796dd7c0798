"""The operations of SNS with which clients subscribe to topics and publish messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from leadline.serve.answer import Answer
from leadline.serve.api_error import ApiError
from leadline.serve.topics import Message, Subscription, Topics

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,256}")
_PAGE: Final = 100
_POLICY: Final = "FilterPolicy"
_DEFAULT: Final = "default"


class TopicOperations:
    """CreateTopic, ListTopics, DeleteTopic, Subscribe, Unsubscribe, ListSubscriptions(ByTopic) and Publish.

    Each takes a request that is valid according to the model, and returns the answer.

    Raises:
        ApiError: The request cannot be fulfilled.
    """

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def create(self, request: Mapping[str, Any]) -> Answer:
        """Create a topic; one that exists stays as it is."""
        if not _NAME.fullmatch(request["Name"]):
            raise _invalid("Topic Name")
        return {"TopicArn": self._topics.create(request["Name"])}

    def list_(self, request: Mapping[str, Any]) -> Answer:
        """List the topics."""
        return _page("Topics", [{"TopicArn": arn} for arn in self._topics.list()], request)

    def delete(self, request: Mapping[str, Any]) -> None:
        """Delete a topic with its subscriptions."""
        self._topics.delete(request["TopicArn"])

    def subscribe(self, request: Mapping[str, Any]) -> Answer:
        """Subscribe an address or URL to a topic; it need not confirm that."""
        topic, protocol, endpoint = self._find(request["TopicArn"]), request["Protocol"], request.get("Endpoint", "")
        if protocol not in self._topics.protocols:
            known = ", ".join(self._topics.protocols)
            raise _invalid(f"Protocol: {protocol}; this server has {known} (see leadline serve --email and --sms)")
        if not endpoint:
            raise _invalid("Endpoint")
        policy = _policy(request.get("Attributes", {}))
        return {"SubscriptionArn": self._topics.subscribe(topic, protocol, endpoint, policy)}

    def unsubscribe(self, request: Mapping[str, Any]) -> None:
        """Remove a subscription."""
        self._topics.unsubscribe(request["SubscriptionArn"])

    def list_subscriptions(self, request: Mapping[str, Any]) -> Answer:
        """List the subscriptions of all topics."""
        return _page("Subscriptions", list(map(self._described, self._topics.subscriptions())), request)

    def list_subscriptions_by_topic(self, request: Mapping[str, Any]) -> Answer:
        """List the subscriptions of a topic."""
        found = self._topics.subscriptions(self._find(request["TopicArn"]))
        return _page("Subscriptions", list(map(self._described, found)), request)

    def publish(self, request: Mapping[str, Any]) -> Answer:
        """Send a message to the subscriptions of a topic, or to a telephone number."""
        given = request.get("MessageAttributes", {})
        attributes = {name: value.get("StringValue", "") for name, value in given.items()}
        message = Message(_text(request), request.get("Subject", ""), attributes)
        target = request.get("TopicArn") or request.get("TargetArn")
        if target:
            self._topics.publish(self._find(target), message)
        elif request.get("PhoneNumber") and "sms" in self._topics.protocols:
            self._topics.send_text(request["PhoneNumber"], message)
        else:
            raise _invalid("TopicArn, TargetArn or PhoneNumber (with leadline serve --sms)")
        return {"MessageId": message.id}

    def _find(self, arn: str) -> str:
        if arn not in self._topics.list():
            raise ApiError("NotFound", "Topic does not exist", 404)
        return arn

    def _described(self, subscription: Subscription) -> dict[str, str]:
        return {
            "SubscriptionArn": subscription.arn,
            "Owner": subscription.topic.split(":")[4],
            "Protocol": subscription.protocol,
            "Endpoint": subscription.endpoint,
            "TopicArn": subscription.topic,
        }


def _invalid(what: str) -> ApiError:
    return ApiError("InvalidParameter", f"Invalid parameter: {what}")


def _policy(attributes: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the filter policy of a subscription: attributes with the texts that each may have."""
    try:
        policy = json.loads(attributes.get(_POLICY) or "{}")
    except ValueError:
        policy = None
    is_simple = isinstance(policy, dict) and all(
        isinstance(values, list) and all(isinstance(value, str) for value in values) for values in policy.values()
    )
    if not is_simple:
        raise _invalid(f"Attributes Reason: {_POLICY}: only lists of texts are supported")
    return dict(policy)


def _text(request: Mapping[str, Any]) -> str:
    """Return the text of a message; of one with a text for each protocol, the default one."""
    text = str(request["Message"])
    if request.get("MessageStructure") != "json":
        return text
    try:
        return str(json.loads(text)[_DEFAULT])
    except (ValueError, KeyError, TypeError):
        raise _invalid("Message Structure - No default entry in JSON message body") from None


def _page(member: str, entries: Sequence[Mapping[str, str]], request: Mapping[str, Any]) -> Answer:
    token = request.get("NextToken") or "0"
    if not token.isascii() or not token.isdecimal():
        raise _invalid("NextToken")
    first = int(token)
    last = first + _PAGE
    return {member: list(entries[first:last]), **({"NextToken": str(last)} if last < len(entries) else {})}
