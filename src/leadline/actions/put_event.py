"""The action put_event."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from leadline.actions import aws
from leadline.actions.action import Action, ActionContext, Outcome
from leadline.actions.sagemaker_event import DETAIL_TYPE, SOURCE, detail
from leadline.records.names import EVERY_STATUS

_PROBE_SECONDS: Final = 5.0
_NAME: Final = "put_event"
_clients: dict[PutEvent, Any] = {}
"""The client of each action, created at its first notification: that takes ten times as long as a call."""


class PutEvent(Action, frozen=True, kw_only=True):
    """Puts every notification on a bus of Amazon EventBridge, in the format of SageMaker's own events.

    The `detail-type` of the event is `SageMaker Training Job State Change`. Its `detail` contains TrainingJobName,
    TrainingJobStatus, SecondaryStatus and DebugRuleEvaluationStatuses like Amazon's, and the notification itself
    ([events.md](events.md)) under `leadline`. Only Amazon may use sources that begin with `aws.`; Leadline's is
    `leadline`. In the pattern of an existing rule replace `"source": ["aws.sagemaker"]` by
    `"source": ["aws.sagemaker", "leadline"]`; the Lambda behind it reads the same fields as before, but stops a run by
    `leadline stop` where it called `stop_training_job`.

    By default every status is followed: `--on '*=put_event'` sends all events of rules and job. boto3 finds the
    credentials, which need `events:PutEvents`. If an event exceeds 256 kB, evidence, tensors and rules are left out
    in this order, and listed in `leadline.left_out`.

    Args:
        bus: Name or ARN of the event bus.
        region: Region of the bus; empty: that of the environment or the profile.
        endpoint: An endpoint other than Amazon's own, such as a VPC endpoint; empty: Amazon's.
        probe: Whether to check credentials and connection before the training starts.
    """

    target: ClassVar[str | None] = "bus"
    statuses: ClassVar[tuple[str, ...]] = (EVERY_STATUS,)
    extra: ClassVar[str | None] = "aws"

    bus: str = "default"
    region: str = ""
    endpoint: str = ""
    probe: bool = True

    def check(self) -> None:
        from leadline.actions.connectivity import check_reachable

        with closing(self._client()) as client:
            host, port, scheme = aws.endpoint_address(client)
        if self.probe:
            aws.check_credentials(_NAME)
            check_reachable(host, port, min(self.timeout, _PROBE_SECONDS), scheme=scheme)

    def describe(self, context: ActionContext) -> str:
        return f"would put {context.notification.id} on the bus {self.bus}"

    def run(self, context: ActionContext) -> Outcome:
        notification = context.notification
        moment = datetime.fromtimestamp(notification.time_ns / 1e9, tz=UTC)
        entry = {
            "Time": moment,
            "Source": SOURCE,
            "DetailType": DETAIL_TYPE,
            "Detail": detail(notification).decode(),
            "EventBusName": self.bus,
        }
        return Outcome(f"put on the bus {self.bus}: event {self._put(entry)}")

    def _put(self, entry: dict[str, Any]) -> str:
        """Put one event on the bus, and return its id.

        Raises:
            RejectedError: Amazon refused it for good.
            RetryLaterError: It failed, and a retry may succeed.
        """
        client = _clients.get(self) or _clients.setdefault(self, self._client())
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = client.put_events(Entries=[entry])
        except (BotoCoreError, ClientError) as error:
            self.close()  # the next attempt searches for credentials again
            raise aws.translate_error("EventBridge", error) from error
        (result,) = answer["Entries"]
        if answer.get("FailedEntryCount"):
            raise aws.error_for_code("EventBridge", str(result.get("ErrorCode")))
        return str(result["EventId"])

    def close(self) -> None:
        client = _clients.pop(self, None)
        if client is not None:
            client.close()

    def _client(self) -> Any:
        return aws.make_client("events", action=_NAME, region=self.region, endpoint=self.endpoint, seconds=self.timeout)
