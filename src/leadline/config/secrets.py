"""Secrets written as ``$NAME``: resolved where they are needed, and removed from every message."""

from __future__ import annotations

import base64
import json
import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, quote_plus

from leadline.errors import ConfigurationError

_VARIABLE: Final = re.compile(r"\$(?:\$|\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_MIN_CHARACTERS: Final = 4
"""Shorter values are not removed from texts: they would match parts of unrelated words."""
_SECRET_NAME: Final = re.compile(
    r"(?i)(^|[-_.])(pass(word|wd|phrase)?|pwd|secret|token|api_?key|key|access_?key|credentials?|auth(orization)?|sig(nature)?)$"
)
_SECRET_PARAMETER: Final = re.compile(r"(?i)(password|secret|token|authorization|api_?key|access_?key)$")
_PASSWORD: Final = re.compile(r"[A-Za-z][\w+.-]*://[^/\s:@]*:([^/\s?#]+)@")
_URL: Final = re.compile(r"[A-Za-z][\w+.-]*://\S+")
_HEADER: Final = re.compile(r"([\w.-]+)\s*[=:]\s*[^$,\s]*(?:,|$)")
"""The name of a header whose value contains no variable."""
_ADVICE: Final = "write it as $VARIABLE in single quotes, so that the shell does not expand it"


class Secret(NamedTuple):
    """The value of a variable at the time when its name was replaced by it."""

    name: str
    value: str


def variables(text: str) -> tuple[str, ...]:
    """The names that a text contains as ``$NAME`` or ``${NAME}``, without duplicates; ``$$`` is a dollar sign."""
    names = (match[1] or match[2] for match in _VARIABLE.finditer(text))
    return tuple(dict.fromkeys(filter(None, names)))


def missing(
    parameters: Mapping[str, Any], environment: Mapping[str, str], verbatim: Sequence[str] = ()
) -> tuple[str, ...]:
    """The variables that parameters name and that the environment lacks or has empty."""
    named = [name for _, text in _texts(parameters, verbatim) for name in variables(text)]
    return tuple(name for name in dict.fromkeys(named) if not environment.get(name))


def resolve(
    parameters: Mapping[str, Any], environment: Mapping[str, str], verbatim: Sequence[str] = ()
) -> tuple[dict[str, Any], tuple[Secret, ...]]:
    """Replace the names of variables in parameters by their values, once: values are not searched for names again.

    Args:
        verbatim: Parameters that stay as they are.
    Returns:
        The parameters, and the secrets that must not appear in messages from here on.
    Raises:
        ConfigurationError: A variable is not set, or empty.
    """
    absent = missing(parameters, environment, verbatim)
    if absent:
        raise ConfigurationError(f"${absent[0]} is not set")
    resolved = {name: _substitute(value, environment, name in verbatim) for name, value in parameters.items()}
    named = [name for _, text in _texts(parameters, verbatim) for name in variables(text)]
    return resolved, tuple(Secret(name, environment[name]) for name in dict.fromkeys(named))


def scrub(text: str, secrets: Iterable[Secret]) -> str:
    """Replace each secret in a text by ``$NAME``: as it is, quoted as in a URL, escaped as in JSON, or in base64.

    Other forms are not recognized, such as a part of a secret. A text that third-party code has written, which may
    contain any form, must therefore not be shown.
    """
    forms = {form: name for name, value in secrets if len(value) >= _MIN_CHARACTERS for form in _forms(value)}
    if not forms:
        return text
    longest_first = sorted(forms, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda match: f"${forms[match[0]]}", text)


def _forms(value: str) -> tuple[str, ...]:
    data = value.encode()
    encoded = (base64.b64encode(data), base64.urlsafe_b64encode(data))
    return (
        value,
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        *(text.decode().rstrip("=") for text in encoded),
    )


def refuse_literal(parameters: Mapping[str, Any], where: str) -> None:
    """Refuse literal secrets in an argument, which ``ps`` shows, or in a file, which is shared.

    Args:
        where: Prefix of the error message.
    Raises:
        ConfigurationError: A text contains a password or a key.
    """
    for name, text in _texts(parameters, ()):
        what = _literal(name, text)
        if what:
            raise ConfigurationError(f"{where}: {name} contains {what}; {_ADVICE}")


def _literal(name: str, text: str) -> str | None:
    if _SECRET_PARAMETER.search(name) and text and not variables(text):
        return "a secret"
    if name.endswith("headers") and any(_SECRET_NAME.search(key) for key in _HEADER.findall(text)):
        return "a secret"
    for url in _URL.findall(text):
        password = _PASSWORD.match(url)
        if password and not _is_variable(password[1]):
            return "a password"
        if any(value and not variables(value) and _SECRET_NAME.search(key) for key, value in _query(url)):
            return "a key"
        if not variables(url) and _is_private(url):
            return "a key"
    return None


def _is_variable(text: str) -> bool:
    return bool(variables(text)) and not _VARIABLE.sub("", text)


def _query(url: str) -> list[tuple[str, str]]:
    return parse_qsl(url.partition("?")[2].partition("#")[0])


def _is_private(url: str) -> bool:
    """Whether Apprise, if it is installed, hides a part of the URL in its privacy form."""
    with warnings.catch_warnings(), _silent("apprise"):
        warnings.simplefilter("ignore")
        try:
            import apprise
        except ImportError:
            return False
        service = apprise.Apprise.instantiate(url, suppress_exceptions=True)
    return service is not None and service.url(privacy=True) != service.url(privacy=False)


@contextmanager
def _silent(logger: str) -> Iterator[None]:
    log = logging.getLogger(logger)
    was_disabled, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = was_disabled


def _texts(parameters: Mapping[str, Any], verbatim: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name, value in parameters.items():
        if name not in verbatim:
            parts = value if isinstance(value, (list, tuple)) else [value]
            yield from ((name, part) for part in parts if isinstance(part, str))


def _substitute(value: Any, environment: Mapping[str, str], is_verbatim: bool) -> Any:
    if is_verbatim:
        return value
    if isinstance(value, (list, tuple)):
        return [_substitute(part, environment, False) for part in value]
    if not isinstance(value, str):
        return value
    return _VARIABLE.sub(lambda match: environment[match[1] or match[2]] if match[0] != "$$" else "$", value)
