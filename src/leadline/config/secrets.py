"""The one scrubber: replaces secrets in command lines, configurations, URLs and messages, and refuses literal ones."""

from __future__ import annotations

import base64
import json
import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, quote_plus

from leadline.config.secret_names import NONE, STRONG, WEAK, is_qualified, secrecy
from leadline.config.variables import Secret, is_variable, texts, variables
from leadline.errors import ConfigurationError

MASK: Final = "****"
_MIN_CHARACTERS: Final = 4
"""Shorter values of variables are not removed from texts: they would match parts of unrelated words."""
_ADVICE: Final = "write it as $VARIABLE in single quotes, so that the shell does not expand it"

_SHAPES: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
    r"|(?<![A-Za-z0-9_])(?:"
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"  # AWS
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,}|gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[\w-]{16,}"  # forges
    r"|hf_[A-Za-z0-9]{25,}|wandb_v1_\w{20,}|r8_[A-Za-z0-9]{30,}|nvapi-[\w-]{30,}"  # trackers and hubs of models
    r"|sk-(?=[\w-]{0,100}\d)[\w-]{18,}|gsk_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{30,}|pplx-[A-Za-z0-9]{30,}"
    r"|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}|\d{8,10}:AA[\w-]{33}"  # messengers
    r"|AIza[\w-]{35}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,}|dapi[0-9a-f]{32}|hvs\.[\w-]{20,}|AGE-SECRET-KEY-1\w{20,}"
    r"|npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,}|dckr_pat_[\w-]{20,}|do[opr]_v1_[0-9a-f]{64}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|[rsp]k_(?:live|test)_\w{16,}|ATATT3[\w=-]{50,}|lin_api_\w{30,}|AccountKey=[A-Za-z0-9+/=]{20,}"
    r")|(?<=/bot)\d{8,10}:[\w-]{33,}|(?<![\w.-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}(?:\.[\w-]*)?"  # JSON web tokens
)
_HEXADECIMAL: Final = re.compile(r"(?<![\w/@.-])[0-9a-f]{40}(?!\w)")
"""A key of Weights & Biases, unless it follows a word for a revision."""
_REVISION: Final = re.compile(r"(?i)(?:commit|rev|revision|sha|sha1|hash|checksum|digest|ref|git|tree|head|etag)\W*$")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*$")
_URL: Final = re.compile(r"://((?:[^\s\"'<>`:\\]|:(?!//))*)")
_TOKEN_ONLY: Final = re.compile(r"(?=[^/?#@]*\d)[^/?#@:]{16,}@")
_WEBHOOK: Final = re.compile(
    r"(?i)((?:[\w.-]*hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks"
    r"|[\w.-]*webhook\.office\.com/webhookb2|outlook\.office(?:365)?\.com/webhook|hooks\.zapier\.com/hooks/catch"
    r"|hc-ping\.com|[^/?#]*/(?:web)?hooks?(?=(?:/[\w-]{1,40}){0,2}/[A-Za-z0-9]{20,}))/)([^?#]{6,})"
)
_NOTIFIERS: Final = frozenset(
    ("slack", "discord", "tgram", "msteams", "workflow", "workflows", "mmost", "mmosts", "gotify", "gotifys", "sns")
)
"""Schemes of Apprise whose whole address is a secret."""
_BEARER: Final = re.compile(r"(?i)\b((?:bearer|basic)\s+)(?=[\w.~+/=-]{0,200}[\d=])([\w.~+/=-]{8,})")
_USER: Final = re.compile(r"((?<!\S)(?:-u|--user|--proxy-user)[\s=]\s*[\"']?[^\s:\"'/]{1,200}:)(?!//)([^\s\"']+)")
_LOGIN: Final = re.compile(r"(\blogin\s+\S{1,200}\s+password\s+|\bsshpass\s+-p\s*)([^\s-]\S*)")
_PAIR: Final = re.compile(
    r"(?i)(\bname\\*[\"']?\s*[:=]\s*\\*[\"']?([\w.-]{1,100})\\*[\"']?\s*,\s*\\*[\"']?value\\*[\"']?\s*[:=]\s*)"
    r"(\\*[\"']?)([^\s\"'\\,}]+)"
)
_NAME: Final = re.compile(r"[A-Za-z_][\w.-]*")
_ASSIGNED: Final = re.compile(r"(\\*[\"'])?\]?\s{0,3}(?:=>|:=|==|=|:(?!:|//))\s{0,3}")
_FOLLOWED: Final = re.compile(r"(?:\s+|\\*[\"']\s*,\s*(?=\\*[\"']))(?=[^\s-])")
_QUOTE: Final = re.compile(r"\\*[\"']")
_UNQUOTED: Final = re.compile(
    r"(?:[^\s\"'&;,\\<]|\\(?![\"'])|<(?!/)|&(?![\w.%-]{1,100}=)|;(?!\s|$|[\w ]{1,60}=)|,(?!\s|$|[\w.-]{1,100}[=:])"
    r"|\"(?=[^\s,;)}\]])[^\"]*\"|'(?=[^\s,;)}\]])[^']*')+"
)
_AUTH_SCHEME: Final = re.compile(r"(?i)(?:bearer|basic|token|digest|apikey|genie-?key|negotiate|bot|key)\s+")
_BRACKETS: Final = {"(": ")", "[": "]", "{": "}"}
_HARMLESS: Final = re.compile(
    r"(?i)\**|os\.(?:environ|getenv)\b.{0,200}|str|bytes|optional\[.{0,100}|none|null|true|false|yes|no|undefined|\$\(.{0,200}|<[^<>]{0,100}>?|\[[A-Z_]{1,40}\]?|\{[\w.]{0,100}\}?|%\(?\w{1,100}\)?s?|\.\.\."
)
"""Values that are no secret whatever they are called: placeholders, and the absence of a value."""
_PLAIN: Final = re.compile(
    r"(?i)[-+]?\d{0,9}\.?\d{0,9}(?:e[-+]?\d{1,3})?|on|off|auto|default|optional|required"
    r"|[a-z_][\w.]{0,60}[\[(][\w., ]{0,60}[\])]?"
)
"""Values that are no secret if the name is not surely that of one: numbers, choices, and expressions of a program."""
_RANDOM: Final = re.compile(r"(?=[^\d]{0,200}\d)[A-Za-z0-9+/=-]{16,}")
_PREFIX: Final = re.compile(r"(?:[bru]{1,2}(?=[\"']))?")
_QUOTED: Final = {'"': re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL), "'": re.compile(r"(?:[^'\\]|\\.)*", re.DOTALL)}
_LINE: Final = re.compile(r"[^\n\"']*")
_PRIVATE_URL: Final = re.compile(r"[A-Za-z][\w+.-]{0,30}://\S+")
_INDENTATION: Final = 20
"""So many characters before a name are examined for the begin of its line."""
_ARGUMENT: Final = re.compile(r"([-+~/]{0,2}([A-Za-z_][\w.@/-]*)=)(.*)", re.DOTALL)
_SHELL: Final = re.compile(r"-[a-z]{0,3}c")
"""The option of a shell after which a program follows."""
_OPTION: Final = re.compile(r"--?([A-Za-z_][\w.-]*)")


def scrub(text: str, known: Iterable[Secret] = ()) -> str:
    """Replace the secrets in a text: known ones by ``$NAME``, all others that can be recognized by ``****``.

    A known secret is found as it is, quoted as in a URL, escaped as in JSON, and in base64. Others are recognized by
    the name that they are assigned to (option, variable, header, key of JSON), by their place in a URL, or by their
    shape, such as ``ghp_…``. The time is proportional to the length of the text, whatever it contains.

    A part of a secret, or a word that nothing marks as one, is not recognized: a text that third-party code has
    written about a secret must therefore not be shown.
    """
    forms = {form: name for name, value in known if len(value) >= _MIN_CHARACTERS for form in _forms(value)}
    if forms:
        longest_first = sorted(forms, key=len, reverse=True)
        text = re.sub("|".join(map(re.escape, longest_first)), lambda match: f"${forms[match[0]]}", text)
    text = _SHAPES.sub(MASK, text)
    text = _HEXADECIMAL.sub(_unless_revision, text)
    text = _URL.sub(_scrubbed_url, text)
    for pattern in (_BEARER, _USER, _LOGIN):
        text = pattern.sub(lambda match: match[1] + _masked(match[2], WEAK), text)
    text = _PAIR.sub(lambda match: match[1] + match[3] + _masked(match[4], secrecy(match[2])), text)
    return "".join(_without_assigned(text))


def scrub_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command line without secrets."""
    scrubbed: list[str] = []
    expected, previous = NONE, ""
    for argument in command:
        option, assignment = _OPTION.fullmatch(argument), _ARGUMENT.fullmatch(argument)
        if expected and not argument.startswith("-"):
            scrubbed.append(_masked(argument, expected))
        elif previous in ("-u", "--user", "--proxy-user"):
            scrubbed.append(scrub(f"{previous} {argument}")[len(previous) + 1 :])
        elif _SHELL.fullmatch(previous):
            scrubbed.append(scrub(argument))
        elif _HEXADECIMAL.fullmatch(argument) and _REVISION.search(previous):
            scrubbed.append(argument)
        elif assignment and (level := secrecy(assignment[2])):
            scrubbed.append(assignment[1] + _masked(assignment[3], level))
        else:
            scrubbed.append(scrub(argument))
        expected = secrecy(option[1]) if option else NONE
        if argument == "-p" and previous.endswith("sshpass"):
            expected = STRONG
        previous = argument
    return tuple(scrubbed)


def scrub_values(value: Any, name: str = "") -> Any:
    """Return a value of JSON without secrets: texts under names of secrets as a whole, others where they contain one.

    Args:
        name: The name of the value.
    """
    if isinstance(value, Mapping):
        return {key: scrub_values(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [scrub_values(item, name) for item in value]
    if isinstance(value, str):
        level = secrecy(name)
        return _masked(value, level) if level else scrub(value)
    return value


def refuse_literal(parameters: Mapping[str, Any], where: str) -> None:
    """Refuse literal secrets in an argument, which ``ps`` shows, or in a file, which is shared.

    Args:
        where: Prefix of the error message.
    Raises:
        ConfigurationError: A text contains a password or a key.
    """
    for name, text in texts(parameters):
        is_named = bool(secrecy(name)) and bool(text) and not variables(text)
        if is_named or scrub(text) != text or (not variables(text) and any(map(_is_private, _urls(text)))):
            raise ConfigurationError(f"{where}: {name} contains a secret; {_ADVICE}")


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


def _masked(value: str, level: int) -> str:
    """Return what is shown of a value: the mask, unless the value cannot be a secret; its quotes stay."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[0] + _masked(value[1:-1], level) + value[0]
    scheme = _AUTH_SCHEME.match(value)
    core = value[scheme.end() :] if scheme else value
    is_harmless = is_variable(core.replace("/", "")) or _HARMLESS.fullmatch(core) is not None
    return value if level == NONE or is_harmless or (level == WEAK and _PLAIN.fullmatch(core)) else MASK


def _unless_revision(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 24) : match.start()]
    return match[0] if _REVISION.search(before) else MASK


def _scrubbed_url(match: re.Match[str]) -> str:
    rest = match[1]
    found = _SCHEME.search(match.string[max(0, match.start() - 30) : match.start()])
    if found is None:
        return match[0]
    scheme = found[0].lower()
    if scheme in _NOTIFIERS:
        return f"://{_masked(rest, STRONG)}"
    if webhook := _WEBHOOK.match(rest):
        return f"://{webhook[1]}{_masked(webhook[2], STRONG)}{rest[webhook.end() :]}"
    is_web = scheme.endswith(("http", "https"))
    user, colon, after = rest.partition(":")
    if colon and not re.search(r"[/?#@\[]", user):
        return f"://{user}:{_without_password(after, is_web=is_web)}"
    if is_web and (token := _TOKEN_ONLY.match(rest)):
        return f"://{MASK}{rest[token.end() - 1 :]}"
    return match[0]


def _without_password(rest: str, *, is_web: bool) -> str:
    """Mask what stands between ``://user:`` and the host; after a port, there is no password."""
    authority, place = re.split(r"[/?#]", rest, maxsplit=1)[0], re.split(r"[?#]", rest, maxsplit=1)[0]
    is_port = authority.isdigit() or not authority
    first = rest.find("@")
    if first < 0 or (is_port and (is_web or "@" not in place)):
        return rest
    query = re.search(r"[?#]", rest[first:])
    last = rest.rfind("@", 0, first + query.start() if query else len(rest))
    return _masked(rest[:last], STRONG) + rest[last:]


def _without_assigned(text: str) -> Iterator[str]:
    """Yield a text in parts, without the values that are assigned to names of secrets."""
    position = shown = 0
    before = ""
    while name := _NAME.search(text, position):
        position, level = name.end(), secrecy(name[0])
        assigned = _start_of_value(text, name, before, level) if level else None
        if assigned is not None:
            start, end = _value(text, assigned, name[0], level)
            value = text[start:end]
            if (masked := _masked(value, level)) != value and not _names_itself(value, name[0]):
                yield text[shown:start] + masked
                shown = position = end
        before = name[0]
    yield text[shown:]


def _names_itself(value: str, name: str) -> bool:
    """Return whether a value is a placeholder, as in ``usage: [--token TOKEN]``."""
    return value.isupper() and value.lower().replace("_", "-") == name.lower().replace("_", "-")


def _start_of_value(text: str, name: re.Match[str], before: str, level: int) -> int | None:
    """Return where what is assigned to a name begins; None: nothing is."""
    start, end = name.span()
    preceding = text[start - 1 : start]
    if text[end : end + 1] == ">" and preceding == "<":
        return end + 1
    is_option = preceding == "-"
    if (assigned := _ASSIGNED.match(text, end)) and not (is_option and ":" in assigned[0]):
        is_query = preceding in ("?", "&") and text[end] == "="
        is_key = assigned[1] is not None or name[0].isupper() or ("=" in assigned[0] and name[0].lower() != "key")
        if is_option or is_query or is_key or level == STRONG or _begins_line(text, start):
            return assigned.end()
        quoted = _QUOTE.match(text, assigned.end())
        is_random = _RANDOM.match(text, quoted.end() if quoted else assigned.end())
        return assigned.end() if is_random or is_qualified(name[0], before if preceding == " " else "") else None
    if is_option or (level == STRONG and text[end : end + 2] in (" '", ' "')):
        followed = _FOLLOWED.match(text, end)
        return followed.end() if followed else None
    return None


def _begins_line(text: str, start: int) -> bool:
    """Return whether nothing but spaces, dashes and braces stands before a place in its line."""
    before = text[max(0, start - _INDENTATION) : start]
    line = before.rpartition("\n")[2]
    return not line.strip(" -{,") and (len(line) < len(before) or start < _INDENTATION)


def _value(text: str, start: int, name: str, level: int) -> tuple[int, int]:
    """Return where a value begins and ends, without its quotes; one that does not end is the rest of the text."""
    is_element = text[start - 1 : start] == ">" and text[start - 2 : start - 1] != "="
    if is_element and (element := text.find("<", start)) >= 0:
        return start, element
    if quoted := _QUOTE.match(text, start + len(_PREFIX.match(text, start)[0])):  # type: ignore[index]
        return quoted.end(), _end_of_quoted(text, quoted)
    closing = _BRACKETS.get(text[start : start + 1])
    if closing and (level == STRONG or name.lower().endswith("auth")):
        end = text.find(closing, start)
        return start + 1, len(text) if end < 0 else end
    if name.lower().endswith("cookie"):
        end = _LINE.match(text, start).end()  # type: ignore[union-attr]
    else:
        scheme = _AUTH_SCHEME.match(text, start)
        unquoted = _UNQUOTED.match(text, scheme.end() if scheme else start)
        end = unquoted.end() if unquoted else start
    while end > start and text[end - 1] in ")]}>.:":
        end -= 1
    return start, end


def _end_of_quoted(text: str, quoted: re.Match[str]) -> int:
    """Return where a quoted value ends: at the same quote with as many backslashes as before the first one."""
    if len(quoted[0]) == 1:
        return _QUOTED[quoted[0]].match(text, quoted.end()).end()  # type: ignore[union-attr]
    end = text.find(quoted[0], quoted.end())
    while end > 0 and text[end - 1] == "\\":
        end = text.find(quoted[0], end + 1)
    return len(text) if end < 0 else end


def _urls(text: str) -> list[str]:
    return _PRIVATE_URL.findall(text)


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
