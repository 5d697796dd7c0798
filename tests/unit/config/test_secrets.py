"""Secrets: variables found and resolved, secrets removed from messages, literal secrets refused."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest

from leadline.config.secrets import refuse_literal, scrub
from leadline.config.variables import missing, resolve, variables
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
        "login with {} refused",
        "{0} {0}",
        "url=https://me:{quoted}@h",
        "body {json}",
        "AUTH PLAIN {base64}",
        "token={url_base64}&x=1",
    ],
)
@pytest.mark.parametrize("secret", [PASSWORD, "päss\nwörd?>", "+/+/+/~~~"])
def test_all_forms_of_a_secret_are_removed(secret: str, message: str) -> None:
    data = secret.encode()
    text = message.format(
        secret,
        quoted=quote(secret, safe=""),
        json=json.dumps({"error": secret}),
        base64=base64.b64encode(data).decode(),
        url_base64=base64.urlsafe_b64encode(data).decode().rstrip("="),
    )
    _, secrets = resolve({"password": "$PASS"}, {"PASS": secret})
    clean = scrub(text, secrets)
    assert "$PASS" in clean
    for form in (secret, quote(secret), quote_plus(secret), json.dumps(secret)[1:-1]):
        assert form not in clean
    assert base64.b64encode(data).decode().rstrip("=") not in clean


def test_a_url_in_a_variable_is_removed_as_a_whole() -> None:
    _, secrets = resolve({"url": "$HOOK"}, ENVIRONMENT)
    assert scrub(f"hooks.example.org: POST {HOOK} failed", secrets) == "hooks.example.org: POST $HOOK failed"
    assert scrub(f"next={quote(HOOK, safe='')}", secrets) == "next=$HOOK"


def test_the_longer_of_two_secrets_is_removed_first_and_names_are_not_searched() -> None:
    _, secrets = resolve({"a": "$SHORT $LONG $WORD"}, {"SHORT": "hunter", "LONG": "hunter22", "WORD": "LONG"})
    assert scrub("hunter22 and hunter, LONG", secrets) == "$LONG and $SHORT, $WORD"


def test_other_text_stays() -> None:
    assert scrub("nothing to hide", ()) == "nothing to hide"
    _, secrets = resolve({"port": "$PORT"}, {"PORT": "80"})
    assert scrub("80 steps", secrets) == "80 steps"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("url", "mailtos://me:hunter22@smtp.example.org"),
        ("url", "$MAIL mailtos://me:hunter22@smtp.example.org"),
        ("url", "https://$NAME:hunter22@h/x"),
        ("url", "https://h/x?token=hunter22"),
        ("url", "https://h/x?api_key=hunter22&a=b"),
        ("url", "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"),
        ("url", "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"),
        ("command", "curl https://me:hunter22@h/x"),
        ("authorization", "Bearer hunter22"),
        ("headers", "x-scope=a,api-key=hunter22"),
    ],
)
def test_literal_secrets_are_refused_and_not_repeated(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        refuse_literal({name: text}, "--on a=webhook")
    assert str(caught.value).startswith(
        f"--on a=webhook: {name} contains a secret; write it as $VARIABLE in single quotes"
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
