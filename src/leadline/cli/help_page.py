"""What ``--help`` prints: plain text, without Python's types and with no name broken at its hyphen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import typer
from typer.core import TyperCommand

_HYPHEN: Final = "\ue000"
"""Stands for a hyphen while lines are wrapped; its width is the same."""

_PYTHON_TYPE: Final = re.compile(r" <(?:list\[)?(?P<type>str|int|float)\b[^>|]*>$")
"""The type of a parameter as some versions of typer state it: ``<list[str]>``, ``<float range>``."""


class _HelpFormatter(typer.Context.formatter_class):  # type: ignore[valid-type, misc]
    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _HYPHEN))

    def write_dl(self, rows: Sequence[tuple[str, str]], *args: Any, **settings: Any) -> None:
        super().write_dl([(_term(term), text.replace("-", _HYPHEN)) for term, text in rows], *args, **settings)

    def getvalue(self) -> str:
        return str(super().getvalue().replace(_HYPHEN, "-"))


def _term(term: str) -> str:
    """Return ``--name TEXT`` for ``--name <str>``, and an argument without its type."""
    is_option = term.startswith("-")
    return _PYTHON_TYPE.sub(lambda found: f" {'TEXT' if found['type'] == 'str' else 'NUMBER'}" * is_option, term)


class HelpContext(typer.Context):
    """The context of a command whose help is written so."""

    formatter_class = _HelpFormatter


class Command(TyperCommand):
    """A command with such a help."""

    context_class = HelpContext


def first_sentence(text: str | None) -> str:
    """Return the first paragraph of a command's help as one line."""
    return " ".join((text or "").split("\n\n")[0].split())
