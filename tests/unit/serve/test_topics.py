"""Topics of SNS, with the requests and answers of botocore, and messages received by real servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from api_caller import CREATE, IMAGE, Caller, server_settings
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from endpoints import MailEndpoint, Reply, http_endpoint, mail_endpoint
from test_job_queue import new_job

from leadline.dashboard.security import Access
from leadline.errors import ConfigurationError
from leadline.serve import rule_messages
from leadline.serve.app import ApiService
from leadline.serve.job_queue import JobQueue, ServerSettings
from leadline.serve.run_configuration import configured_rules
from leadline.serve.service_model import service_model
from leadline.serve.signature import SignedRequest
from leadline.serve.state_file import StateFile
from leadline.serve.topics import Message, Topics
from leadline.serve.training_job import RuleEvaluation

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # a library of Apprise's
ARN = "arn:aws:sns:us-east-1:000000000000:SMDebugRules"
MAIL = "me@example.org"


@pytest.fixture(scope="module")
def mail() -> Iterator[MailEndpoint]:
    with mail_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
def settings(tmp_path: Path, mail: MailEndpoint) -> ServerSettings:
    mail.mails.clear()
    target = "mailto://127.0.0.1:$PORT?from=a@example.org&to={address}"
    return replace(server_settings(tmp_path), targets={"email": target})


@pytest.fixture
def caller(settings: ServerSettings, mail: MailEndpoint, tmp_path: Path) -> Iterator[Caller]:
    state, topics = StateFile(str(tmp_path / "state.sqlite")), Topics(settings, {"PORT": str(mail.port)})
    topics.check()
    queue = JobQueue(state, settings, on_change=lambda before, job: rule_messages.publish(topics, before, job))
    yield Caller(ApiService(queue, topics, Access()), queue, topics)
    topics.close()
    state.close()


def call(caller: Caller, name: str, **parameters: Any) -> Any:
    """Make a call as boto3 does, and return the answer or the code of the error."""
    operation = service_model("sns").operation_model(name)
    request = create_serializer("query").serialize_to_request(parameters, operation)
    headers = {"host": "127.0.0.1:5156", "content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    answer = caller.service.answer(SignedRequest("POST", "/", headers, urlencode(request["body"]).encode()))
    response = {"status_code": answer.status, "headers": {}, "body": answer.body}
    parsed = create_parser("query").parse(response, operation.output_shape)
    parsed.pop("ResponseMetadata")
    return parsed["Error"]["Code"] if answer.status != 200 else parsed


def test_topics_and_subscriptions(caller: Caller) -> None:
    assert call(caller, "CreateTopic", Name="SMDebugRules") == {"TopicArn": ARN}
    assert call(caller, "CreateTopic", Name="SMDebugRules", Tags=[{"Key": "a", "Value": "b"}]) == {"TopicArn": ARN}
    assert call(caller, "ListTopics") == {"Topics": [{"TopicArn": ARN}]}
    policy = {"FilterPolicy": json.dumps({"email": [MAIL]})}
    request = {
        "TopicArn": ARN,
        "Protocol": "email",
        "Endpoint": MAIL,
        "Attributes": policy,
        "ReturnSubscriptionArn": True,
    }
    arn = call(caller, "Subscribe", **request)["SubscriptionArn"]
    assert call(caller, "Subscribe", **request) == {"SubscriptionArn": arn}
    row = {"SubscriptionArn": arn, "Owner": "000000000000", "Protocol": "email", "Endpoint": MAIL, "TopicArn": ARN}
    assert call(caller, "ListSubscriptions") == {"Subscriptions": [row]}
    assert call(caller, "ListSubscriptionsByTopic", TopicArn=ARN) == {"Subscriptions": [row]}
    kept = Topics(caller.queue.settings, {})  # as a server that is started again
    assert [each.policy for each in kept.subscriptions()] == [{"email": [MAIL]}]
    kept.close()
    assert call(caller, "Unsubscribe", SubscriptionArn=arn) == {}
    assert call(caller, "ListSubscriptions") == {"Subscriptions": []}
    call(caller, "DeleteTopic", TopicArn=ARN)
    assert call(caller, "ListSubscriptionsByTopic", TopicArn=ARN) == "NotFound"


def test_lists_have_pages(caller: Caller) -> None:
    topic = caller.topics.create("many")
    for number in range(101):
        caller.topics.subscribe(topic, "email", f"{number}@example.org", {})
    first = call(caller, "ListSubscriptions")
    rest = call(caller, "ListSubscriptions", NextToken=first["NextToken"])
    assert [len(page["Subscriptions"]) for page in (first, rest)] == [100, 1]
    assert "NextToken" not in rest


def test_refused_requests(caller: Caller) -> None:
    call(caller, "CreateTopic", Name="SMDebugRules")
    subscribe = {"TopicArn": ARN, "Protocol": "https", "Endpoint": "https://example.org/x"}
    for name, request, code in (
        ("CreateTopic", {"Name": "not a name"}, "InvalidParameter"),
        ("Subscribe", subscribe | {"TopicArn": f"{ARN}x"}, "NotFound"),
        ("Subscribe", subscribe | {"Protocol": "sms", "Endpoint": "+1"}, "InvalidParameter"),
        ("Subscribe", subscribe | {"Protocol": "sqs"}, "InvalidParameter"),
        ("Subscribe", subscribe | {"Endpoint": "nowhere"}, "InvalidParameter"),
        ("Subscribe", subscribe | {"Attributes": {"FilterPolicy": '{"a": [{"prefix": "b"}]}'}}, "InvalidParameter"),
        ("Publish", {"Message": "x"}, "InvalidParameter"),
        ("Publish", {"Message": "x", "PhoneNumber": "+15551234567"}, "InvalidParameter"),
        ("Publish", {"Message": "x", "TopicArn": f"{ARN}x"}, "NotFound"),
        ("Publish", {"Message": "{}", "TopicArn": ARN, "MessageStructure": "json"}, "InvalidParameter"),
        ("ListSubscriptions", {"NextToken": "x"}, "InvalidParameter"),
        ("GetTopicAttributes", {"TopicArn": ARN}, "UnknownOperationException"),
    ):
        assert call(caller, name, **request) == code, (name, request)


def test_a_message_reaches_those_whose_policy_it_satisfies(caller: Caller, mail: MailEndpoint) -> None:
    call(caller, "CreateTopic", Name="SMDebugRules")
    with http_endpoint(Reply(503), Reply()) as endpoint:
        url = f"http://127.0.0.1:{endpoint.port}/hook"
        call(caller, "Subscribe", TopicArn=ARN, Protocol="http", Endpoint=url)
        for address in (MAIL, "other@example.org"):
            policy = {"FilterPolicy": json.dumps({"email": [address]})}
            call(caller, "Subscribe", TopicArn=ARN, Protocol="email", Endpoint=address, Attributes=policy)
        attributes = {"email": {"DataType": "String", "StringValue": MAIL}}
        sent = {"TopicArn": ARN, "Message": "It fired.", "Subject": "fired", "MessageAttributes": attributes}
        identity = call(caller, "Publish", **sent)["MessageId"]
        caller.topics.close()  # waits for what is to be sent
    first, again = endpoint.received  # a retry
    assert first.body == again.body
    document = again.json
    assert (document["Type"], document["MessageId"], document["TopicArn"]) == ("Notification", identity, ARN)
    assert (document["Subject"], document["Message"]) == ("fired", "It fired.")
    assert document["MessageAttributes"] == {"email": {"Type": "String", "Value": MAIL}}
    assert again.headers["x-amz-sns-message-type"] == "Notification"
    (received,) = mail.mails
    assert (received["To"], received["Subject"]) == (MAIL, "fired")


@pytest.mark.parametrize("source", [{}, {"source_s3_uri": "s3://bucket/rules.py"}])
def test_a_rule_that_finds_something_publishes_to_the_address_of_its_action(
    caller: Caller, mail: MailEndpoint, source: dict[str, str]
) -> None:
    actions = [{"name": "email", "endpoint": MAIL}, {"name": "sms", "endpoint": "+1555"}]
    action = json.dumps(actions).replace('"', '\\"')  # as SDK v2 writes them
    parameters = {"rule_to_invoke": "ExplodingTensor", "action_json": action, **source}
    entry = {"RuleConfigurationName": "Nan", "RuleEvaluatorImage": IMAGE, "RuleParameters": parameters}
    caller.call("CreateTrainingJob", **CREATE | {"DebugRuleConfigurations": [entry]})
    assert [each.endpoint for each in caller.topics.subscriptions(ARN)] == [MAIL]  # there is no target for sms
    job = caller.queue.find("first")
    assert job is not None
    for status, details in (
        ("InProgress", ""),
        ("IssuesFound", "met\nloss is NaN"),
        ("IssuesFound", "met\nloss is NaN"),
    ):
        rules = tuple(
            replace(rule, status=status, details=details) if rule.name == "Nan" else rule for rule in job.rules
        )
        caller.queue.change(replace(job, rules=rules))
    caller.topics.close()
    (received,) = mail.mails
    assert (received["To"], received["Subject"]) == (MAIL, "SMDebugRule:Nan fired")
    assert "SMDebugRule:Nan fired. met" in received.get_content()
    assert "Training job: first" in received.get_content()


def test_rules_without_addresses_need_no_topic(caller: Caller) -> None:
    caller.call("CreateTrainingJob", **CREATE)
    assert caller.topics.list() == ()
    rule = RuleEvaluation("VanishingGradient", "VanishingGradient", "p", False, False, 1, "IssuesFound")
    job = replace(new_job("job"), request=CREATE, rules=(rule,))
    assert configured_rules(job.request)
    rule_messages.publish(caller.topics, None, job)
    assert caller.topics.list() == ()


def test_a_server_without_what_its_targets_need_does_not_start(settings: ServerSettings) -> None:
    topics = Topics(settings, {})
    with pytest.raises(ConfigurationError, match="PORT is not set"):
        topics.check()
    topics.publish(topics.create("empty"), Message("to nobody"))
    topics.close()
