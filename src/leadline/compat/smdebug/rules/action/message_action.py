"""A mail or text message of a rule through SNS, in smdebug's interface."""

from __future__ import annotations

import json
from typing import Any, Final

from leadline.compat.smdebug.rules.action.aws_call import call_aws

TOPIC: Final = "SMDebugRules"
ATTRIBUTES: Final = {"email": "email", "sms": "phone_num"}
"""The attribute of a message by which the subscription of its receiver is chosen."""


class MessageAction:
    """Publishes to a topic of SNS, to which the receiver is subscribed at once; failures are logged.

    Args:
        message_type: ``email`` or ``sms``.
        message_endpoint: The address or the number.
    """

    def __init__(self, rule_name: str, message_type: str, message_endpoint: str) -> None:
        self._rule_name, self._protocol, self._message_endpoint = rule_name, message_type, message_endpoint
        self._topic_name, self._topic_arn = TOPIC, ""
        self._last_send_mesg_response: Any = None
        failure = f"{message_endpoint} is not subscribed to {TOPIC}"
        self._last_subscription_response = call_aws("sns", self._subscribe, failure)

    def invoke(self, message: str = "") -> None:
        """Publish that the rule has found something."""
        failure = f"{self._message_endpoint} got no message of {self._rule_name}"
        name = f"SMDebugRule:{self._rule_name} fired"
        attribute = {"DataType": "String", "StringValue": self._message_endpoint}
        named = {"Subject": name, "MessageAttributes": {ATTRIBUTES[self._protocol]: attribute}}
        self._last_send_mesg_response = call_aws(
            "sns",
            lambda sns: sns.publish(TopicArn=self._topic_arn, Message=f"{name}. {message}", **named),
            failure,
        )

    def _subscribe(self, sns: Any) -> Any:
        """Subscribe the receiver to messages for it; a second subscription of the same receiver changes nothing."""
        self._topic_arn = sns.create_topic(Name=TOPIC)["TopicArn"]
        chosen = {ATTRIBUTES[self._protocol]: [self._message_endpoint]}
        return sns.subscribe(
            TopicArn=self._topic_arn,
            Protocol=self._protocol,
            Endpoint=self._message_endpoint,
            Attributes={"FilterPolicy": json.dumps(chosen)},
        )
