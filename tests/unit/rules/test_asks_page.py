"""docs/reference/rules/asks.md counts its answers as they are, and names programs and files that exist."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

PROJECT = Path(__file__).parents[3]
PAGE = (PROJECT / "docs" / "reference" / "rules" / "asks.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| \d+ \| ", line)]


def programs(folder: str) -> set[str]:
    return {path.stem for path in (PROJECT / "tests" / "detection" / folder).glob("*/*.py")}


def test_the_questions_are_numbered_and_the_answers_counted() -> None:
    assert [int(number) for number, *_ in ROWS] == list(range(1, 49))
    answers = Counter(row[2] for row in ROWS)
    assert set(answers) == {"yes", "partly", "no"}
    assert f"{answers['yes']} are yes, {answers['partly']} partly, and {answers['no']} no." in PAGE


def test_each_answer_but_no_names_a_program_or_test_that_exists() -> None:
    mistakes, checks = programs("mistakes"), programs("check_mistakes")
    for number, _, answer, by, *_ in ROWS:
        names = re.findall(r"`((?:check:|tests/)?\w[\w/]*(?:\.py)?)`", by)
        shown = [
            name
            for name in names
            if name in mistakes or name.removeprefix("check:") in checks or (PROJECT / name).is_file()
        ]
        assert shown == names, number
        assert bool(names) == (answer != "no"), number


def test_a_file_of_faulty_trainings_has_one_of_a_named_rule() -> None:
    for number, _, _, by, *_ in ROWS:
        rules = re.findall(r"\]\((\w+)\.md\)", by)
        for name in re.findall(r"`(tests/process/scripts/\w+\.py)`", by):
            text = (PROJECT / name).read_text()
            assert any(f"def {rule}(" in text for rule in rules), number
