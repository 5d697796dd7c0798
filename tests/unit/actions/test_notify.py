"""notify, with real mail and HTTP servers on loopback, and with moto's SNS."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from amazon import amazon, client, make_queue, received
from endpoints import HANGS, MailEndpoint, Reply, free_port, http_endpoint, mail_endpoint
from notices import FINDING, make_context

from leadline.actions import message
from leadline.actions.action import RejectedError, RetryLaterError
from leadline.actions.notify import Notify
from leadline.actions.registry import find_action, make_action
from leadline.errors import ConfigurationError, MissingExtraError, UnknownNameError
from leadline.judge.delivery import RetryPolicy
from leadline.records.notification import Notification

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # a library of Apprise's
PASSWORD = "p@ss/w0rd?"
QUOTED = "p%40ss%2Fw0rd%3F"


def mail_url(server: MailEndpoint, login: str = "", to: str = "me@example.org") -> str:
    return f"mailto://{login}127.0.0.1:{server.port}?from=train@example.org&to={to}"


def tell(url: str, notification: Notification = FINDING, **parameters: Any) -> str:
    return Notify(url=url, **parameters).run(make_context(notification)).outcome


@pytest.mark.parametrize("has_login", [False, True])
def test_a_mail_arrives_with_title_and_text(has_login: bool) -> None:
    with mail_endpoint(password=PASSWORD if has_login else None) as server:
        assert tell(mail_url(server, f"bob:{QUOTED}@" if has_login else "")) == "sent: mail through 127.0.0.1"
    (mail,) = server.mails
    assert mail["Subject"] == message.title(FINDING)
    assert (mail["From"], mail["To"]) == ("train@example.org", "me@example.org")
    assert mail.get_content().replace("\r\n", "\n").strip() == message.text(FINDING)


@pytest.mark.parametrize(
    ("login", "to", "why"),
    [
        ("bob:wr0ngpassword@", "me@example.org", "answered 535 (authentication failed)"),
        ("", "me@example.org", "answered 530 (authentication required)"),
        (f"bob:{QUOTED}@", "nobody@example.org", "answered 550 (mailbox unavailable or not permitted)"),
    ],
)
def test_a_refused_mail_is_not_retried_and_has_a_reason(login: str, to: str, why: str) -> None:
    with mail_endpoint(password=PASSWORD, refuses="nobody@example.org") as server:
        with pytest.raises(RejectedError) as caught:
            tell(mail_url(server, login, to))
        assert server.mails == []
    assert str(caught.value) == f"mail through 127.0.0.1: {why}"


def test_a_login_at_a_server_without_logins_is_refused_for_good() -> None:
    with mail_endpoint() as server, pytest.raises(RejectedError, match="AUTH"):
        tell(mail_url(server, "bob:secret@"))


def test_a_server_that_is_down_is_retried_and_reported() -> None:
    port = free_port()
    with pytest.raises(RetryLaterError, match=r"^mail through 127\.0\.0\.1: connection refused$"):
        tell(f"mailto://127.0.0.1:{port}?from=a@example.org&to=me@example.org")


def test_a_password_is_never_in_an_error() -> None:
    reply = Reply(500, f"no {PASSWORD} here, nor {QUOTED}, nor topsecretpath")
    with http_endpoint(reply) as server, pytest.raises(RetryLaterError) as caught:
        tell(f"json://bob:{QUOTED}@127.0.0.1:{server.port}/topsecretpath?:key=value")
    assert str(caught.value) == "json at 127.0.0.1: answered 500 Internal Server Error"


@pytest.mark.parametrize(("status", "is_final"), [(401, True), (403, True), (404, True), (429, False), (503, False)])
def test_permanent_refusals_of_http_services(status: int, is_final: bool) -> None:
    with (
        http_endpoint(Reply(status)) as server,
        pytest.raises(RejectedError if is_final else RetryLaterError) as caught,
    ):
        tell(f"json://127.0.0.1:{server.port}/x")
    assert str(caught.value).startswith(f"json at 127.0.0.1: answered {status} ")


def test_only_the_failed_one_of_several_targets_is_retried() -> None:
    with http_endpoint(Reply(503), Reply(200)) as shaky, mail_endpoint() as server, http_endpoint() as third:
        url = f"{mail_url(server)} json://127.0.0.1:{shaky.port}/ \n json://127.0.0.1:{third.port}/"
        with pytest.raises(RetryLaterError, match="answered 503"):
            tell(url, replace(FINDING, id="several/1"))
        tell(url, replace(FINDING, id="several/1"))
        tell(url, replace(FINDING, id="several/2"))
        assert (len(server.mails), len(shaky.received), len(third.received)) == (2, 3, 2)


def test_a_refusal_is_retried_only_together_with_a_failure() -> None:
    with http_endpoint(Reply(503), Reply(200)) as shaky, http_endpoint(Reply(404)) as gone:
        url = f"json://127.0.0.1:{shaky.port}/ json://127.0.0.1:{gone.port}/"
        with pytest.raises(RetryLaterError, match=r"answered 503.*; json.*answered 404"):
            tell(url, replace(FINDING, id="both/1"))
        with pytest.raises(RejectedError, match=r"^json.*answered 404[^;]*$"):
            tell(url, replace(FINDING, id="both/1"))
        assert len(shaky.received) == 2


@pytest.mark.parametrize(
    ("notification", "kind"),
    [
        (replace(FINDING, id="s1"), "warning"),
        (replace(FINDING, id="s2", kind="rule_status", status="NoIssuesFound"), "success"),
        (replace(FINDING, id="s3", kind="rule_status", status="Error"), "failure"),
        (replace(FINDING, id="s4", kind="job_status", status="Failed"), "failure"),
        (replace(FINDING, id="s5", kind="job_status", status="InProgress"), "info"),
    ],
)
def test_services_receive_the_severity(notification: Notification, kind: str) -> None:
    with http_endpoint() as server:
        tell(f"json://127.0.0.1:{server.port}/", notification)
    (got,) = server.received
    assert got.json["type"] == kind
    assert (got.json["title"], got.json["message"]) == (message.title(notification), message.text(notification))


def test_a_server_that_hangs_times_out() -> None:
    with http_endpoint(Reply(HANGS)) as server, pytest.raises(RetryLaterError, match="timed out"):
        tell(f"json://127.0.0.1:{server.port}/?rto=0.3")


@pytest.fixture
def sns(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """moto's server, to which Apprise's SNS posts over real HTTP."""
    from apprise.plugins.sns import NotifySNS

    made = NotifySNS.__init__
    with amazon() as address:

        def made_here(self: Any, *given: Any, **named: Any) -> None:
            made(self, *given, **named)
            self.notify_url = f"{address}/"

        monkeypatch.setattr(NotifySNS, "__init__", made_here)
        yield address


def test_an_sns_topic_receives_the_message(sns: str) -> None:
    queue, arn = make_queue(sns, "seen")
    topics = client("sns", sns)
    topic = topics.create_topic(Name="training")["TopicArn"]
    topics.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    assert tell("sns://AKIATEST/verysecretkey/eu-west-1/training?mode=topic") == "sent: sns"
    (got,) = received(sns, queue)
    assert "loss is NaN, and 28 more tensors" in got
    assert "loud fired at step 1,313 in demo-1120" in got


def test_a_text_message_service_gets_one_line(sns: str) -> None:
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.sns.models import sns_backends

    assert tell("sns://AKIATEST/verysecretkey/eu-west-1/+15551234567") == "sent: sns"
    ((number, text),) = sns_backends[DEFAULT_ACCOUNT_ID]["eu-west-1"].sms_messages.values()
    assert (number, text) == ("+15551234567", message.short(FINDING, 160))


@pytest.mark.parametrize(
    ("url", "error", "why"),
    [
        ("", ConfigurationError, "the target is empty"),
        ("slak://AAAAAA/BBBBBBB", UnknownNameError, "did you mean 'slack'"),
        ("nosuch://secretkey", UnknownNameError, "no service of Apprise named 'nosuch'"),
        ("sns://secretkey", ConfigurationError, "the sns:// URL is incomplete"),
        ("slack://secretkey", ConfigurationError, "the slack:// URL is incomplete"),
        ("mailto://bob:secretkey@127.0.0.1", ConfigurationError, "the mailto:// URL is incomplete"),
        ("mailto://", ConfigurationError, "the mailto:// URL has nothing after its scheme"),
        (
            "mailto://localhost?too=me@example.org",
            UnknownNameError,
            "no parameter of mailto:// named 'too'; did you mean 'to'",
        ),
        ("mailto://localhost:25", ConfigurationError, "the mailto:// URL names no recipient; for example"),
        ("json://[secretkey", ConfigurationError, "malformed"),
        ("secretkey", ConfigurationError, "the target is not a URL"),
        ("me@example.org", ConfigurationError, "a mail address alone does not name the server that sends it"),
        ("+15551234567", ConfigurationError, "a telephone number alone does not name the service"),
    ],
)
def test_invalid_targets_are_refused_before_the_start(url: str, error: type[Exception], why: str) -> None:
    with pytest.raises(error) as caught:
        Notify(url=url).check()
    assert why in str(caught.value)
    assert "secretkey" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_host_in_plain_text_must_answer() -> None:
    with mail_endpoint() as server, http_endpoint() as other:
        Notify(
            url=f"{mail_url(server)} json://127.0.0.1:{other.port}/ sns://AKIATEST/verysecret/eu-west-1/+15551234567"
        ).check()
    for url in (mail_url(server), f"json://127.0.0.1:{other.port}/"):
        with pytest.raises(ConfigurationError, match=r"127\.0\.0\.1:\d+ cannot be reached: connection refused"):
            Notify(url=url).check()
        Notify(url=url, probe=False).check()
        Notify(url=url, dry_run=True).check()


def test_a_rule_sends_one_message_in_a_run_unless_every_finding_is_asked_for() -> None:
    assert RetryPolicy.of(make_action("notify", {"url": "$MAIL"})).is_once
    assert not RetryPolicy.of(make_action("notify", {"url": "$MAIL", "episodes": "every"})).is_once
    assert not RetryPolicy.of(make_action("webhook", {"url": "https://example.org"})).is_once


def test_a_dry_run_sends_nothing() -> None:
    with mail_endpoint() as server:
        said = Notify(url=f"{mail_url(server)} $SLACK", dry_run=True).describe(make_context())
    assert said == "would send (mail through 127.0.0.1, $SLACK): loud fired at step 1,313 in demo-1120"
    assert server.mails == []


def test_without_apprise_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "apprise", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'leadline\[notify\]'"):
        Notify(url="json://127.0.0.1/").check()


def test_amazons_names_are_aliases() -> None:
    assert find_action("Email") is find_action("SMS") is find_action("notify") is Notify


def test_what_apprise_logs_reaches_no_other_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"), pytest.raises(RetryLaterError):
        tell(f"json://bob:secretkey@127.0.0.1:{free_port()}/secretkey")
    assert "secretkey" not in caplog.text
