"""The action put_event."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from leadline.actions import aws
from leadline.actions.action import EVERY_STATUS, Action, ActionContext, Outcome
from leadline.actions.sagemaker_event import DETAIL_TYPE, SOURCE, detail

_PROBE_SECONDS: Final = 5.0
_NAME: Final = "put_event"
_kept: dict[PutEvent, Any] = {}
"""The client of each, from its first notice on: to make one takes ten times as long as a call."""


class PutEvent(Action, frozen=True, kw_only=True):
    """Puts each notice on a bus of Amazon EventBridge, in the shape that SageMaker's own events have.

    The event's `detail-type` is `SageMaker Training Job State Change`, and its `detail` has TrainingJobName,
    TrainingJobStatus, SecondaryStatus and DebugRuleEvaluationStatuses as Amazon's has, with the notice itself
    ([events.md](events.md)) under `leadline`. Only Amazon may use sources that begin with `aws.`, so ours is
    `leadline`: in the pattern of a rule that exists, replace `"source": ["aws.sagemaker"]` by
    `"source": ["aws.sagemaker", "leadline"]`; the Lambda behind it reads the same fields as before, but stops a run by
    `leadline stop` where it called `stop_training_job`.

    Without a status it follows every one: `--on '*=put_event'` sends all that happens, to the job too. Credentials
    come from where boto3 looks for them, and need `events:PutEvents`. An event of more than 256 kB leaves out
    evidence, tensors and rules, in this order, and names them in `leadline.left_out`.

    Args:
        bus: Name or ARN of the event bus.
        region: Of the bus; empty: the one of the environment or the profile.
        endpoint: Another address than Amazon's own, for a VPC endpoint; empty: that.
        probe: Whether credentials and a connection are looked for before the training starts.
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
            host, port, scheme = aws.place(client)
        if self.probe:
            aws.check_credentials(_NAME)
            check_reachable(host, port, min(self.timeout, _PROBE_SECONDS), scheme=scheme)

    def describe(self, occasion: ActionContext) -> str:
        return f"would put {occasion.notice.id} on the bus {self.bus}"

    def run(self, occasion: ActionContext) -> Outcome:
        notice = occasion.notice
        moment = datetime.fromtimestamp(notice.time_ns / 1e9, tz=UTC)
        entry = {
            "Time": moment,
            "Source": SOURCE,
            "DetailType": DETAIL_TYPE,
            "Detail": detail(notice).decode(),
            "EventBusName": self.bus,
        }
        return Outcome(f"put on the bus {self.bus}: event {self._put(entry)}")

    def _put(self, entry: dict[str, Any]) -> str:
        """Put one entry; the id of the event.

        Raises:
            RejectedError: Amazon will never take it.
            RetryLaterError: It did not.
        """
        client = _kept.get(self) or _kept.setdefault(self, self._client())
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = client.put_events(Entries=[entry])
        except (BotoCoreError, ClientError) as error:
            self.close()  # the next one looks for credentials anew
            raise aws.failure("EventBridge", error) from error
        (said,) = answer["Entries"]
        if answer.get("FailedEntryCount"):
            raise aws.answered("EventBridge", str(said.get("ErrorCode")), str(said.get("ErrorMessage")))
        return str(said["EventId"])

    def close(self) -> None:
        client = _kept.pop(self, None)
        if client is not None:
            client.close()

    def _client(self) -> Any:
        return aws.make_client("events", action=_NAME, region=self.region, endpoint=self.endpoint, seconds=self.timeout)
