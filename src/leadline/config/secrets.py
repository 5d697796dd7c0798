"""Secrets written as ``$NAME``: resolved where they are needed, and removed from every message."""

from __future__ import annotations

import base64
import html
import json
import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, quote_plus, unquote

from leadline.errors import ConfigurationError

_VARIABLE: Final = re.compile(r"\$(?:\$|\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_MIN_CHARACTERS: Final = 4
"""Shorter values are not removed from texts: they would match parts of unrelated words."""
_MIN_PREFIX: Final = 6
_MAX_PREFIX: Final = 16
"""Bounds of the prefix length by which a truncated secret is recognized; otherwise half of the secret."""
_TOKEN: Final = re.compile(r"(?=[^\s/]*[0-9A-Z])[^\s/]{8,}")
"""A part of a URL that looks like a key and not like a word."""
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
    alone = [Secret(name, environment[name]) for name in dict.fromkeys(named)]
    pairs = [pair for _, text in _texts(parameters, verbatim) for pair in _pairs(text, environment)]
    return resolved, (*alone, *pairs)


def scrub(text: str, secrets: Iterable[Secret]) -> str:
    """Remove secrets from a text: each is replaced by ``$NAME``, in whatever form it appears.

    Forms are the value; the parts of a URL other than its host (user and password, path, keys); percent-encoded and
    decoded; in base64, also of pairs ``user:password``; escaped as in JSON, Python, HTML. A truncated secret is found
    from half of its length on, so scrub a text before you shorten it.
    """
    forms = _forms(tuple(secrets))
    if not forms:
        return text
    prefixes = re.compile("|".join(sorted({re.escape(_prefix(form)) for form in forms}, key=len, reverse=True)))
    kept, start = [], 0
    while match := prefixes.search(text, start):
        rest = text[match.start() : match.start() + max(map(len, forms))]
        likely = [form for form in forms if rest.startswith(_prefix(form))]
        form = max(likely, key=lambda candidate: _common_length(candidate, rest))
        kept += [text[start : match.start()], f"${forms[form]}"]
        start = match.start() + _common_length(form, rest)
    return "".join([*kept, text[start:]])


def _prefix(form: str) -> str:
    """The prefix by which a secret is recognized."""
    if _URL.match(form):
        return form  # every URL of the service has the same prefix
    return form[: min(max(len(form) // 2, _MIN_PREFIX), _MAX_PREFIX)]


def _common_length(one: str, other: str) -> int:
    """The length of the common prefix of two texts."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


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


def _pairs(text: str, environment: Mapping[str, str]) -> Iterator[Secret]:
    """``user:password`` of URLs with a variable in it: both are sent together, in base64."""
    for url in _URL.findall(text):
        userinfo = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
        if ":" in userinfo and variables(userinfo):
            yield Secret(variables(userinfo)[-1], unquote(str(_substitute(userinfo, environment, False))))


def _forms(secrets: Sequence[Secret]) -> dict[str, str]:
    """All forms in which the secrets may appear, with the names of their variables."""
    forms: dict[str, str] = {}
    for name, value in secrets:
        for part in (value, *_parts(value)):
            for form in _spellings(part):
                forms.setdefault(form, name)
    pairs = ((user, password) for user in secrets for password in secrets if user.name != password.name)
    for user, password in pairs:
        for form in _base64_forms(f"{user.value}:{password.value}"):
            forms.setdefault(form, password.name)
    return {form: name for form, name in forms.items() if len(form) >= _MIN_CHARACTERS}


def _parts(value: str) -> Iterator[str]:
    """The parts of a URL that are secret by themselves, or that may appear alone in messages of third parties."""
    for url in _URL.findall(value):
        scheme, _, rest = url.partition("://")
        authority, slash, path = rest.partition("/")
        userinfo, at, host = authority.rpartition("@")
        user, colon, password = userinfo.partition(":")
        yield from (password, f"{user}:{password}") if colon else ()
        if at and not colon:
            yield user  # a key, as in the URLs of many services
        if "." not in host and scheme not in ("http", "https"):
            yield from _TOKEN.findall(host.partition("?")[0])
        yield from _TOKEN.findall(path.partition("?")[0])
        yield from (text for key, text in _query(url) if _SECRET_NAME.search(key) or _TOKEN.fullmatch(text))
        if slash and len(path) >= _MIN_CHARACTERS * 2:
            yield f"/{path}"


def _spellings(text: str) -> Iterator[str]:
    decoded = unquote(text)
    for form in {text, decoded}:
        quoted = (quote(form), quote(form, safe=""), quote_plus(form))
        lower = (re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), url) for url in quoted)
        yield from (form, *quoted, *lower)
        yield from (json.dumps(form)[1:-1], json.dumps(form, ensure_ascii=False)[1:-1], repr(form)[1:-1])
        yield from (html.escape(form), html.escape(form, quote=False), *_base64_forms(form))


def _base64_forms(text: str) -> tuple[str, ...]:
    data = text.encode()
    plain, for_urls = base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()
    return (plain, for_urls, plain.rstrip("="), for_urls.rstrip("="))
