"""The results of checks in a run directory, damaged ones included."""

from __future__ import annotations

import json
from pathlib import Path

from leadline.reader.checks import read_checks

RESULT = {"probe": "look_ahead", "outcome": "passed", "message": "none", "step": 2}


def test_results_are_in_the_order_of_the_probes(tmp_path: Path) -> None:
    (tmp_path / "checks").mkdir()
    document = {"checks": [RESULT, {**RESULT, "probe": "mixed_samples"}, {**RESULT, "probe": "of_a_later_version"}]}
    (tmp_path / "checks" / "rank0-1.json").write_text(json.dumps(document))
    (found,) = read_checks(str(tmp_path)).items()
    assert (found[0], [result.probe for result in found[1]]) == ("rank0-1", ["mixed_samples", "look_ahead"])


def test_a_run_without_checks_has_none(tmp_path: Path) -> None:
    assert read_checks(str(tmp_path)) == {}


def test_damaged_documents_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "checks").mkdir()
    for number, text in enumerate(("", "{", "[]", '{"checks": 3}', '{"checks": [1]}', "null")):
        (tmp_path / "checks" / f"rank0-{number}.json").write_text(text)
    assert [results for results in read_checks(str(tmp_path)).values() if results] == []
