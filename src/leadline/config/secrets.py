"""Secrets that stand as ``$NAME`` in texts: put in place where they are needed, and taken out of what is said."""

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
_FEWEST_CHARACTERS: Final = 4
"""Shorter values are left in texts: they would be found in words that have nothing to do with them."""
_LEAST_BEGINNING: Final = 6
_MOST_BEGINNING: Final = 16
"""So many first characters of a secret are enough to know it by, where somebody cut it off: half, within these."""
_TOKEN: Final = re.compile(r"(?=[^\s/]*[0-9A-Z])[^\s/]{8,}")
"""A part of a URL that looks like a key rather than like a word."""
_SECRET_NAME: Final = re.compile(
    r"(?i)(^|[-_.])(pass(word|wd|phrase)?|pwd|secret|token|api_?key|key|access_?key|credentials?|auth(orization)?|sig(nature)?)$"
)
_SECRET_PARAMETER: Final = re.compile(r"(?i)(password|secret|token|authorization|api_?key|access_?key)$")
_PASSWORD: Final = re.compile(r"[A-Za-z][\w+.-]*://[^/\s:@]*:([^/\s?#]+)@")
_URL: Final = re.compile(r"[A-Za-z][\w+.-]*://\S+")
_HEADER: Final = re.compile(r"([\w.-]+)\s*[=:]\s*[^$,\s]*(?:,|$)")
"""The name of a header whose value has no variable in it."""
_ADVICE: Final = "write it as $VARIABLE in single quotes, so that the shell leaves it alone"


class Secret(NamedTuple):
    """What a variable held when it was put in place of its name."""

    name: str
    value: str


def variables(text: str) -> tuple[str, ...]:
    """The names that a text has as ``$NAME`` or ``${NAME}``, each once; ``$$`` is a dollar."""
    found = (match[1] or match[2] for match in _VARIABLE.finditer(text))
    return tuple(dict.fromkeys(each for each in found if each))


def missing(
    parameters: Mapping[str, Any], environment: Mapping[str, str], verbatim: Sequence[str] = ()
) -> tuple[str, ...]:
    """The variables that parameters name and the environment lacks, or has empty."""
    named = [name for _, text in _texts(parameters, verbatim) for name in variables(text)]
    return tuple(name for name in dict.fromkeys(named) if not environment.get(name))


def resolve(
    parameters: Mapping[str, Any], environment: Mapping[str, str], verbatim: Sequence[str] = ()
) -> tuple[dict[str, Any], tuple[Secret, ...]]:
    """Parameters with the values of variables in place of their names, once: a value is not looked through again.

    Args:
        verbatim: Parameters that stay as they are.
    Returns:
        The parameters, and what must not be said from here on.
    Raises:
        ConfigurationError: A variable is not set, or empty.
    """
    absent = missing(parameters, environment, verbatim)
    if absent:
        raise ConfigurationError(f"${absent[0]} is not set")
    resolved = {name: _filled(value, environment, name in verbatim) for name, value in parameters.items()}
    named = [name for _, text in _texts(parameters, verbatim) for name in variables(text)]
    alone = [Secret(name, environment[name]) for name in dict.fromkeys(named)]
    pairs = [each for _, text in _texts(parameters, verbatim) for each in _pairs(text, environment)]
    return resolved, (*alone, *pairs)


def scrub(text: str, secrets: Iterable[Secret]) -> str:
    """A text without secrets: each stands as ``$NAME``, in whichever of its forms it came.

    Those are the value; the parts of a URL that are not its host: user and password, path, keys; percent-encoded and
    decoded; in base64, pairs ``user:password`` as well; as JSON, Python and HTML write it. Of one that somebody cut
    off the beginning is found too, from half of it on; so scrub before you shorten.
    """
    forms = _forms(tuple(secrets))
    if not forms:
        return text
    begins = re.compile("|".join(sorted({re.escape(_beginning(form)) for form in forms}, key=len, reverse=True)))
    kept, start = [], 0
    while found := begins.search(text, start):
        rest = text[found.start() : found.start() + max(map(len, forms))]
        likely = [form for form in forms if rest.startswith(_beginning(form))]
        form = max(likely, key=lambda each: _common(each, rest))
        kept += [text[start : found.start()], f"${forms[form]}"]
        start = found.start() + _common(form, rest)
    return "".join([*kept, text[start:]])


def _beginning(form: str) -> str:
    """Enough of a secret to know it by."""
    if _URL.match(form):
        return form  # every URL of that service begins like it
    return form[: min(max(len(form) // 2, _LEAST_BEGINNING), _MOST_BEGINNING)]


def _common(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def refuse_literal(parameters: Mapping[str, Any], where: str) -> None:
    """Refuse secrets that are given as they are, in an argument (which ``ps`` shows) or in a file (which is shared).

    Args:
        where: How the error calls the place.
    Raises:
        ConfigurationError: A text holds a password or a key.
    """
    for name, text in _texts(parameters, ()):
        what = _literal(name, text)
        if what:
            raise ConfigurationError(f"{where}: {name} holds {what}; {_ADVICE}")


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
    """Whether Apprise, where it is installed, would not show all of a URL."""
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
            yield from ((name, each) for each in parts if isinstance(each, str))


def _filled(value: Any, environment: Mapping[str, str], is_verbatim: bool) -> Any:
    if is_verbatim:
        return value
    if isinstance(value, (list, tuple)):
        return [_filled(each, environment, False) for each in value]
    if not isinstance(value, str):
        return value
    return _VARIABLE.sub(lambda match: environment[match[1] or match[2]] if match[0] != "$$" else "$", value)


def _pairs(text: str, environment: Mapping[str, str]) -> Iterator[Secret]:
    """``user:password`` of URLs of which a part is a variable: both go out together, in base64."""
    for url in _URL.findall(text):
        userinfo = url.partition("://")[2].partition("/")[0].rpartition("@")[0]
        if ":" in userinfo and variables(userinfo):
            yield Secret(variables(userinfo)[-1], unquote(str(_filled(userinfo, environment, False))))


def _forms(secrets: Sequence[Secret]) -> dict[str, str]:
    """Each way in which a secret may appear, and the name of its variable."""
    forms: dict[str, str] = {}
    for name, value in secrets:
        for part in (value, *_parts(value)):
            for form in _spellings(part):
                forms.setdefault(form, name)
    pairs = ((user, word) for user in secrets for word in secrets if user.name != word.name)
    for user, word in pairs:
        for form in _in_base64(f"{user.value}:{word.value}"):
            forms.setdefault(form, word.name)
    return {form: name for form, name in forms.items() if len(form) >= _FEWEST_CHARACTERS}


def _parts(value: str) -> Iterator[str]:
    """What of a URL is secret by itself, or may stand alone in what others say of it."""
    for url in _URL.findall(value):
        scheme, _, rest = url.partition("://")
        authority, slash, path = rest.partition("/")
        userinfo, at, host = authority.rpartition("@")
        user, colon, password = userinfo.partition(":")
        yield from (password, f"{user}:{password}") if colon else ()
        if at and not colon:
            yield user  # a key, as many services have it there
        if "." not in host and scheme not in ("http", "https"):
            yield from _TOKEN.findall(host.partition("?")[0])
        yield from _TOKEN.findall(path.partition("?")[0])
        yield from (text for key, text in _query(url) if _SECRET_NAME.search(key) or _TOKEN.fullmatch(text))
        if slash and len(path) >= _FEWEST_CHARACTERS * 2:
            yield f"/{path}"


def _spellings(text: str) -> Iterator[str]:
    decoded = unquote(text)
    for each in {text, decoded}:
        quoted = (quote(each), quote(each, safe=""), quote_plus(each))
        lower = (re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), form) for form in quoted)
        yield from (each, *quoted, *lower)
        yield from (json.dumps(each)[1:-1], json.dumps(each, ensure_ascii=False)[1:-1], repr(each)[1:-1])
        yield from (html.escape(each), html.escape(each, quote=False), *_in_base64(each))


def _in_base64(text: str) -> tuple[str, ...]:
    data = text.encode()
    plain, for_urls = base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()
    return (plain, for_urls, plain.rstrip("="), for_urls.rstrip("="))
