"""``--help`` of Leadline and of every command, on a terminal of 80 columns."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import typer

from leadline.cli.app import COMMANDS, GROUPS, HIDDEN, application

ALL: Any = typer.main.get_command(application())


def help_of(command: Any, name: str, parent: Any = None) -> str:
    context = command.context_class(command, info_name=name, parent=parent, terminal_width=78)
    text: str = command.get_help(context)
    return text


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_every_command_is_listed_in_its_group_with_a_whole_sentence_on_one_line() -> None:
    sections = help_of(ALL, "leadline").split("\n\n")
    for title, names in GROUPS.items():
        section = next(text for text in sections if text.startswith(f"{title}:"))
        rows = [line.split(maxsplit=1) for line in section.splitlines()[1:]]
        assert [name for name, _ in rows] == list(names)
        for name, sentence in rows:
            documented = inspect.getdoc(ALL.commands[name].callback) or ""
            assert sentence == documented.splitlines()[0], name
            assert sentence.endswith("."), name
    assert not HIDDEN.keys() & set(squeezed("\n".join(sections)).split())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_fits_and_breaks_no_name(name: str) -> None:
    command = ALL.commands[name]
    text = help_of(command, name, parent=ALL.context_class(ALL, info_name="leadline"))
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"<[^>|]*\b(str|int|float)\b", text)
    whole = squeezed(text)
    for parameter in command.params:
        assert squeezed(parameter.help or "") in whole, parameter.name
    for paragraph in inspect.cleandoc(command.help).replace("\b\n", "").split("\n\n"):
        assert squeezed(paragraph) in whole
