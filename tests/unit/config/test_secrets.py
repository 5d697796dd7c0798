"""Secrets: variables found and resolved, secrets removed from messages, literal secrets refused."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest

from leadline.config.secrets import missing, refuse_literal, resolve, scrub, variables
from leadline.errors import ConfigurationError

PASSWORD = 'p@ss/w"rd<1'
MAIL = f"mailtos://me:{quote(PASSWORD, safe='')}@smtp.example.org/?to=you@example.org"
HOOK = "https://hooks.example.org/services/T00000000/B11111111/XyZ0123456789abcdef?token=q9w8e7r6"
ENVIRONMENT = {"MAIL": MAIL, "HOOK": HOOK, "PASS": PASSWORD, "NAME": "somebody", "EMPTY": "", "TWICE": "$NAME"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("$MAIL", ("MAIL",)),
        ("${MAIL}x$NAME $MAIL", ("MAIL", "NAME")),
        ("costs 5$", ()),
        ("$$MAIL", ()),
        ("$$$MAIL", ("MAIL",)),
        ("$1 $(date) ${X:-y}", ()),
    ],
)
def test_variables(text: str, names: tuple[str, ...]) -> None:
    assert variables(text) == names


def test_values_replace_names_once() -> None:
    given = {"url": "x://${NAME}:$PASS@h", "note": "5$$ $TWICE", "many": ["$NAME", "b"], "cooldown": 3.0}
    resolved, _ = resolve(given, ENVIRONMENT)
    assert resolved == {
        "url": f"x://somebody:{PASSWORD}@h",
        "note": "5$ $NAME",
        "many": ["somebody", "b"],
        "cooldown": 3.0,
    }


def test_verbatim_parameters_are_left_to_the_shell() -> None:
    assert resolve({"command": "echo $NOWHERE $$"}, {}, ("command",)) == ({"command": "echo $NOWHERE $$"}, ())
    assert missing({"command": "echo $NOWHERE"}, {}, ("command",)) == ()


def test_unset_and_empty_variables_are_named() -> None:
    given = {"url": "$MAIL $NOWHERE", "other": "${EMPTY}", "number": 3}
    assert missing(given, ENVIRONMENT) == ("NOWHERE", "EMPTY")
    with pytest.raises(ConfigurationError, match=r"^\$NOWHERE is not set"):
        resolve(given, ENVIRONMENT)


@pytest.mark.parametrize(
    "message",
    [
        f"could not reach {MAIL}",
        f"login of me with {PASSWORD} refused",
        f"url={quote(MAIL, safe='')}",
        f"url={quote_plus(MAIL)} and {quote(PASSWORD, safe='').lower()}",
        f"Authorization: Basic {base64.b64encode(f'me:{PASSWORD}'.encode()).decode()}",
        f"AUTH PLAIN {base64.b64encode(PASSWORD.encode()).decode()}",
        json.dumps({"error": PASSWORD}),
        repr(PASSWORD + "'"),
        f"<p>{PASSWORD.replace('<', '&lt;').replace(chr(34), '&quot;')}</p>",
    ],
)
def test_all_forms_of_a_password_are_removed(message: str) -> None:
    _, secrets = resolve({"url": "$MAIL"}, ENVIRONMENT)
    clean = scrub(message, secrets)
    assert "$MAIL" in clean
    for form in ("w%22rd", "w%22RD", 'w"rd', 'w\\"rd', "w&quot;rd", "d%3C1", "rd<1", "d%3c1"):
        assert form not in clean
    for pair in (f"me:{PASSWORD}", PASSWORD):
        assert base64.b64encode(pair.encode()).decode() not in clean


@pytest.mark.parametrize(
    "message",
    [
        f"POST {HOOK} failed",
        "POST /services/T00000000/B11111111/XyZ0123456789abcdef?token=q9w8e7r6: 404",
        "no webhook XyZ0123456789abcdef",
        "invalid token q9w8e7r6",
    ],
)
def test_keys_in_a_url_are_removed_and_its_host_stays(message: str) -> None:
    _, secrets = resolve({"url": "$HOOK"}, ENVIRONMENT)
    clean = scrub(f"hooks.example.org: {message}", secrets)
    assert clean.startswith("hooks.example.org: ")
    assert "XyZ0123456789abcdef" not in clean
    assert "q9w8e7r6" not in clean


def test_base64_of_a_literal_user_and_a_variable_password_is_removed() -> None:
    _, secrets = resolve({"url": "https://me:$PASS@h/x"}, ENVIRONMENT)
    sent = base64.b64encode(f"me:{PASSWORD}".encode()).decode()
    assert scrub(f"got Basic {sent}", secrets) == "got Basic $PASS"


def test_base64_of_two_variables_is_removed() -> None:
    _, secrets = resolve({"user": "$NAME", "password": "$PASS"}, ENVIRONMENT)
    sent = base64.b64encode(f"somebody:{PASSWORD}".encode()).decode()
    assert scrub(f"Basic {sent}", secrets) == "Basic $PASS"


def test_other_text_stays() -> None:
    assert scrub("nothing to hide", ()) == "nothing to hide"
    _, secrets = resolve({"port": "$PORT"}, {"PORT": "80"})
    assert scrub("80 steps", secrets) == "80 steps"


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("url", "mailtos://me:hunter22@smtp.example.org", "a password"),
        ("url", "$MAIL mailtos://me:hunter22@smtp.example.org", "a password"),
        ("url", "https://$NAME:hunter22@h/x", "a password"),
        ("url", "https://h/x?token=hunter22", "a key"),
        ("url", "https://h/x?api_key=hunter22&a=b", "a key"),
        ("url", "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "a key"),
        ("url", "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ", "a key"),
        ("command", "curl https://me:hunter22@h/x", "a password"),
        ("authorization", "Bearer hunter22", "a secret"),
        ("headers", "x-scope=a,api-key=hunter22", "a secret"),
    ],
)
def test_literal_secrets_are_refused_and_not_repeated(name: str, text: str, what: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        refuse_literal({name: text}, "--on a=webhook")
    assert str(caught.value).startswith(
        f"--on a=webhook: {name} contains {what}; write it as $VARIABLE in single quotes"
    )
    assert "hunter22" not in str(caught.value)
    assert "IiajkdnlazkcOXrIdevi7FQ" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("url", "$MAIL"),
        ("url", "mailtos://me:$PASS@smtp.example.org"),
        ("url", "https://me:${PASS}@h/x"),
        ("url", "https://h/x?token=$TOKEN"),
        ("url", "https://host:8080/x?to=a@b.c"),
        ("url", "https://host:8080?to=a@b.c"),
        ("url", "mailto://localhost:2525?to=a@example.org&from=c@example.org"),
        ("url", "json://localhost:8080/path"),
        ("url", "slack://$A/$B/$C"),
        ("authorization", "Bearer $TOKEN"),
        ("authorization", ""),
        ("headers", "api-key=$TOKEN,x-scope=a"),
        ("to", "prometheus"),
        ("command", "scancel $SLURM_JOB_ID"),
    ],
)
def test_parameters_without_secrets_are_accepted(name: str, text: str) -> None:
    refuse_literal({name: text, "cooldown": 3.0}, "--on a=webhook")


def test_truncated_secrets_are_removed() -> None:
    _, secrets = resolve({"a": "$PASS", "b": "$HOOK"}, ENVIRONMENT)
    assert scrub(f"wrong {PASSWORD[:-3]}", secrets) == "wrong $PASS"
    assert scrub(f"wrong {PASSWORD[:-3]}… and {PASSWORD} too", secrets) == "wrong $PASS… and $PASS too"
    assert scrub("no webhook XyZ0123456789a…", secrets) == "no webhook $HOOK…"
    assert scrub("https://other.example.org is not hooks.example.org", secrets) == (
        "https://other.example.org is not hooks.example.org"
    )
