"""Rules are written with the names of one package, the built-in ones like those of users."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import leadline.rules

_OWN = ("leadline.rules.", "leadline.records.formatting")
"""Modules of helpers, of which the face has those that users need."""


def test_the_face_has_what_it_says() -> None:
    assert sorted(leadline.rules.__all__) == leadline.rules.__all__
    assert all(hasattr(leadline.rules, name) for name in leadline.rules.__all__)


def test_built_in_rules_import_verdicts_needs_and_windows_from_it() -> None:
    folder = Path(inspect.getfile(leadline.rules)).parent
    imported = [
        (file.stem, node.module, alias.name)
        for file in folder.glob("*/*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    ]
    assert len({stem for stem, module, _ in imported if module == "leadline.rules"}) > 60
    around = {
        found
        for found in imported
        if found[2] in leadline.rules.__all__ and found[1] != "leadline.rules" and not found[1].startswith(_OWN)
    }
    assert around == set()
