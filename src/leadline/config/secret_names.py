"""Names of options, variables, headers and keys whose value is a secret, recognized by their words."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_LONGEST: Final = 100
"""The end of a longer name is examined."""
_HINT: Final = re.compile(r"(?i)pass|pw|secret|token|key|auth|cred|cookie|sig|sas|pat|jwt|otp")

NONE, WEAK, STRONG = 0, 1, 2
"""How surely a name is that of a secret; of a ``WEAK`` one, a number or a truth value is none."""


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


_STRONG: Final = _words(
    "password passwords passwd passphrase passcode pwd secret secrets credential credentials creds cred apikey apikeys",
    "authorization authtoken accesstoken",
)
_STRONG_ENDS: Final = tuple(
    _words("password passwd passphrase secret apikey accesskey secretkey privatekey authtoken accesstoken apitoken")
)
_ABOUT: Final = _words(
    "file files filename path dir directory folder name names id ids arn type types kind length len size dim count",
    "min max limit policy prompt stdin fd url uri host endpoint region store manager provider process source method",
    "mode scheme required optional expiry expires ttl age version rotation",
)
"""A word after ``password`` or ``secret`` with which the name is that of something about the secret."""
_WEAK: Final = _words("token key auth cookie cookies sig signature sas pat pass pw jwt otp")
_SUFFIXES: Final = _words("string str text base json header prod production dev test staging ci local default b")
"""A word after ``token`` or ``key`` with which the name still is that of the secret, as numbers are."""
_SERVICES: Final = _words(
    "api access secret private auth wandb comet neptune openai anthropic hf hub huggingface aws azure gcp google s3",
    "account encryption signing license ssh ssl tls master shared storage service client app subscription routing",
    "webhook deploy mlflow clearml datadog sentry github gitlab slack discord telegram bot session bearer refresh",
    "security admin user root db id jwt smtp mail csrf",
)
"""A word before ``key`` or ``token``, written together with it or in a sentence, with which it is a secret."""
_COUNTS: Final = _words("num n nb no max min total mean avg per by use with has skip is each every single first last")
_MESSAGES: Final = _words("unexpected invalid expected missing illegal duplicate next previous prev new extra added")
_OTHERWISE: Final = {
    "token": _COUNTS
    | _MESSAGES
    | _words(
        "pad padding eos bos unk unknown sep separator cls class mask special end start stop begin image img audio",
        "video prompt input output target label text word sub drop context newline decoder encoder blank query tool",
        "system assistant boi eoi sot eot think control forced generated cached completion visual vision patch",
        "register dist sentinel placeholder empty null oov time timestamp language lang task speaker memory global",
        "delimiter current split merge",
    ),
    "key": _COUNTS
    | _MESSAGES
    | _words(
        "sort input output label image img text target monitor primary foreign partition group cache metric data loss",
        "hot order dict batch feature column col index lookup config state param model prediction pred score audio",
        "video src tgt source prompt response chosen rejected content message value dataset sample log best checkpoint",
        "ckpt bias attention attn rng prng random jax seed mask join dictionary map hash query tensor layer module",
        "node field row item entry tree registry public annotation caption question answer",
    ),
    "pass": _COUNTS | _words("forward backward second third two one multi low high band all full final train eval"),
    "auth": _COUNTS | _words("enable disable require"),
    "signature": _COUNTS | _words("model serving function time key call"),
    "sig": _COUNTS,
    "cookie": _COUNTS,
}
"""By a word that may name a secret: words before it with which it means something else."""


def secrecy(name: str) -> int:
    """Return how surely a name is that of a secret: ``STRONG``, ``WEAK`` or ``NONE``."""
    return _secrecy(name[-_LONGEST:])


@lru_cache(maxsize=4096)
def _secrecy(name: str) -> int:
    if not _HINT.search(name):
        return NONE
    words = words_of(name)
    for place, word in enumerate(words):
        if word in _STRONG or word.endswith(_STRONG_ENDS):
            return NONE if _ABOUT.intersection(words[place + 1 :]) else STRONG
    while len(words) > 1 and words[-1] in _SUFFIXES:
        words.pop()
    if not words:
        return NONE
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _WEAK:
        singular = last.removesuffix("s") if last == "cookies" else last
        return NONE if before in _OTHERWISE.get(singular, ()) else WEAK
    return WEAK if any(last.endswith(end) and last.removesuffix(end) in _SERVICES for end in ("key", "token")) else NONE


def words_of(name: str) -> list[str]:
    """Return the words of a name in ``snake_case``, ``kebab-case`` or ``camelCase``, in lower case, without numbers."""
    return [word.lower() for word in _WORD.findall(name) if not word.isdigit()]


def is_qualified(name: str, before: str) -> bool:
    """Return whether a name says more than ``key`` or ``token``, alone or by the word before it: ``API key``."""
    return (
        len(words_of(name)) > 1
        or name.lower() not in ("key", "token", "pass", "sig", "pat")
        or (before.lower() in _SERVICES)
    )
