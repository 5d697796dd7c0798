"""Rules that were made in code, in the words of ``--rule``: the judge makes them again in its own process."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from leadline.errors import ConfigurationError

_OURS: Final = "leadline.rules."


def in_words(rule: Any) -> str:
    """A rule as ``--rule`` would name it: its class, and the parameters that are not its defaults.

    Args:
        rule: Words already, or an instance of a rule.
    Raises:
        ConfigurationError: It is neither, or its class cannot be found again by another process.
    """
    if isinstance(rule, str):
        return rule
    fields = getattr(type(rule), "__struct_fields__", None)
    if fields is None or not hasattr(rule, "evaluate"):
        raise ConfigurationError(f"{rule!r} is no rule: give its name, or an instance of a leadline.rules.Rule")
    given = {name: getattr(rule, name) for name in fields if getattr(rule, name) != _default(type(rule), name)}
    words = ",".join(f"{name}={_spoken(type(rule), name, value)}" for name, value in given.items())
    place = _place(rule)
    return f"{place}:{words}" if words else place


def _default(kind: type, name: str) -> Any:
    fields: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]
    defaults: tuple[Any, ...] = kind.__struct_defaults__  # type: ignore[attr-defined]
    position = fields.index(name) - (len(fields) - len(defaults))
    return defaults[position] if position >= 0 else object()


def _place(rule: Any) -> str:
    """Where the judge finds the class: a built-in rule's name, a module, or a file."""
    module, name = type(rule).__module__, type(rule).__qualname__
    if module.startswith(_OURS):
        return str(rule.name)
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or file is None or "." in name:
        raise ConfigurationError(
            f"{name} is defined in {'the script itself' if module == '__main__' else 'no file'}, which the judge "
            "cannot import without running it; put the class at the top of a file of its own and import it from there"
        )
    return f"{module}:{name}" if "." in module else f"{os.path.abspath(file)}:{name}"


def _spoken(kind: type, name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "none"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return ",".join(_spoken(kind, name, each) for each in value)
    raise ConfigurationError(f"{kind.__name__}: {name}={value!r} has no words for --rule; use leadline.toml")
