"""Syntax of ``--on``."""

from __future__ import annotations

import pytest

from leadline.config.options import action_parameters, parse_action
from leadline.errors import ConfigurationError, UnknownNameError

FIELDS = ("url", "authorization", "cooldown", "retries", "dry_run", "headers")


def split(arguments: str, target: str | None = "url") -> dict[str, object]:
    """The parameters of ``webhook:arguments``."""
    return action_parameters(parse_action(f"x=webhook:{arguments}"), FIELDS, target)


@pytest.mark.parametrize(
    ("text", "rule", "status", "action", "arguments"),
    [
        (
            "exploding_tensor@IssuesFound=stop_training:grace=5",
            "exploding_tensor",
            "IssuesFound",
            "stop_training",
            "grace=5",
        ),
        ("*=stop_training", "*", "", "stop_training", None),
        ("*@*=put_event", "*", "*", "put_event", None),
        ("job@Failed=notify:$MAIL", "job", "Failed", "notify", "$MAIL"),
        ("a=my_actions.py:Ping:https://h:1/x?a=b,c=d", "a", "", "my_actions.py:Ping", "https://h:1/x?a=b,c=d"),
        ("a=package.actions:Ping", "a", "", "package.actions:Ping", None),
        ("a=notify:", "a", "", "notify", ""),
    ],
)
def test_actions(text: str, rule: str, status: str, action: str, arguments: str | None) -> None:
    option = parse_action(text)
    assert (option.rule, option.status, option.action, option.arguments) == (rule, status, action, arguments)


@pytest.mark.parametrize(
    ("arguments", "parameters"),
    [
        ("$MAIL", {"url": "$MAIL"}),
        ("$MAIL,cooldown=60,dry_run=true", {"url": "$MAIL", "cooldown": "60", "dry_run": "true"}),
        ("https://h/x?a=b,c=d&e=f", {"url": "https://h/x?a=b,c=d&e=f"}),
        ("https://h/x?a=b,c=d,cooldown=60", {"url": "https://h/x?a=b,c=d", "cooldown": "60"}),
        ("url=https://h/x,c=d,retries=0", {"url": "https://h/x,c=d", "retries": "0"}),
        ("cooldown=60", {"cooldown": "60"}),
        ("https://h/x,headers=a=b,c=d", {"url": "https://h/x", "headers": "a=b,c=d"}),
        ("sbatch --export=A=1,B=2 job.sh", {"url": "sbatch --export=A=1,B=2 job.sh"}),
        ("mailto://a b", {"url": "mailto://a b"}),
        ("@team,cooldown=5", {"url": "@team", "cooldown": "5"}),
        ('{"target": "a,cooldown=5", "retries": 1}', {"url": "a,cooldown=5", "retries": 1}),
        ('{"broken": x}', {"url": '{"broken": x}'}),
    ],
)
def test_a_comma_begins_a_parameter_only_before_a_parameter_name(arguments: str, parameters: dict[str, str]) -> None:
    assert split(arguments) == parameters


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "no text after the colon; write a $VARIABLE in single quotes"),
        (",cooldown=5", "no text after the colon"),
        ("$MAIL,cooldwn=60", "no parameter of webhook named 'cooldwn'; did you mean 'cooldown'?"),
        ("https://h/x,cooldwn=60", "no parameter of webhook named 'cooldwn'; did you mean 'cooldown'?"),
        ("cooldwn=60", "no parameter of webhook named 'cooldwn'"),
        ("$MAIL,cooldown=1,cooldown=2", "'cooldown' is given twice"),
        ("$MAIL,url=https://h", "'url' is given twice"),
    ],
)
def test_wrong_parameters_of_actions(arguments: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        split(arguments)
    assert message in str(caught.value)


def test_an_action_without_a_target_takes_parameters_only() -> None:
    assert split("cooldown=5,retries=1", target=None) == {"cooldown": "5", "retries": "1"}
    with pytest.raises(ConfigurationError, match="webhook takes key=value after its colon, not 'now'"):
        split("now", target=None)


@pytest.mark.parametrize("text", ["stop_training", "rule=", "=stop_training"])
def test_wrong_actions(text: str) -> None:
    with pytest.raises(ConfigurationError, match="RULE=ACTION"):
        parse_action(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exploding_tensor@IssueFound=stop_training", "no rule status named 'IssueFound'; did you mean 'IssuesFound'"),
        ("exploding_tensor@Completed=stop_training", "for the job: job@Completed"),
        ("exploding_tensor@=stop_training", "no rule status named ''"),
        ("job@IssuesFound=stop_training", "no job status named 'IssuesFound'"),
        ("job@Complete=stop_training", "no job status named 'Complete'; did you mean 'Completed'"),
    ],
)
def test_unknown_status(text: str, message: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        parse_action(text)
    assert message in str(caught.value)
