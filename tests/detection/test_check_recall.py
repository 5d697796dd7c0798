"""Programs that prove ``leadline check``: each has a twin, and its results are read and counted."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
from beside_training import SAMPLES, BesidePair, group_table, read_pairs
from check_recall import (
    ARCHITECTURES,
    CHECK_MISTAKES,
    OTHER_FRAMEWORKS,
    OTHER_HEALTHY,
    OTHER_MISTAKES,
    PROBES,
    Check,
    Checked,
    Pair,
    check,
    check_together,
    false_failures,
    probe_table,
    programs,
    programs_of,
    read_checks,
    read_results,
)
from judged_runs import Told
from programs import Result, interpreter, repaired
from recall import CAUSES

FAILED = Checked(2.0, [Check("look_ahead", "failed", "it looks"), Check("update_size", "passed", "fine")])
PASSED = Checked(1.0, [Check("look_ahead", "passed", "fine")])
BARE = ("update_size/cleared_before_the_step", "mode_mismatch/dropout_not_scaled")


def test_every_probe_has_programs_and_there_are_enough_architectures() -> None:
    counts = Counter(name.partition("/")[0] for name in CHECK_MISTAKES)
    assert set(counts) == set(PROBES)
    assert min(counts.values()) >= 7
    assert len(ARCHITECTURES) >= 30


@pytest.mark.parametrize("framework", OTHER_FRAMEWORKS)
def test_other_frameworks_have_programs_and_healthy_trainings(framework: str) -> None:
    assert {name.partition("/")[0] for name in OTHER_MISTAKES[framework]} < set(PROBES)
    assert len(OTHER_HEALTHY[framework]) >= 6
    names = [program.name for program in programs_of(framework)]
    assert len(set(names)) == len(names)


PATHS = [*CHECK_MISTAKES.values(), *(path for known in OTHER_MISTAKES.values() for path in known.values())]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_program_says_who_asks_and_has_a_twin(path: Path) -> None:
    text, twin = path.read_text(), repaired(path).source
    assert text.startswith("# Asked as: ")
    assert twin != text
    assert not re.search("# (mistake|repaired)", twin)
    compile(text, str(path), "exec")
    compile(twin, str(path), "exec")


def test_names_are_unique() -> None:
    names = [program.name for program in programs()]
    assert len(set(names)) == len(names)


def test_architectures_say_what_they_are() -> None:
    for path in ARCHITECTURES.values():
        assert re.match('"""[^"]+"""\n', path.read_text())


@pytest.mark.parametrize("before", ["", "0 {'loss': 1}\n{'loss': 1}\n", "{}\n", '{"a": 1}\n'])
def test_checks_are_read_between_what_the_script_prints(before: str) -> None:
    document = {"checks": [{"probe": "look_ahead", "outcome": "failed", "message": "it looks"}], "version": 1}
    assert read_checks(before + json.dumps(document, indent=2) + "\nlast words") == FAILED.checks[:1]


def test_output_without_checks_has_none() -> None:
    assert read_checks("{}\n{'loss': 1}\n") is None


@pytest.mark.parametrize(
    ("name", "mistaken", "repaired", "told"),
    [
        ("look_ahead/a", FAILED, PASSED, "named"),
        ("look_ahead/a", FAILED, FAILED, "silent"),
        ("update_size/a", FAILED, PASSED, "other"),
        ("update_size/a", PASSED, PASSED, "silent"),
        ("look_ahead/a", FAILED, Checked(1.0, error="it ended"), "error"),
    ],
)
def test_a_mistake_is_named_by_its_own_probe_where_the_twin_passes(
    name: str, mistaken: Checked, repaired: Checked, told: str
) -> None:
    assert Pair(name, mistaken, repaired).told == told


def test_the_table_counts_by_probe() -> None:
    table = probe_table([Pair("look_ahead/a", FAILED, PASSED), Pair("look_ahead/b", FAILED, FAILED)])
    assert "| look ahead | 2 | 1 | 0 | 1 | 0 | 1 |" in table
    assert "| all | 2 | 1 | 0 | 1 | 0 | 1 |" in table


def told(*rules: str) -> Result:
    return Result(None, {rule: Told("fired", ("step 2: so",), "") for rule in rules})


CHECKED, CAUSED = next(iter(SAMPLES["check_mistakes"])), next(iter(SAMPLES["mistakes"]))


@pytest.mark.parametrize(
    ("name", "mistaken", "repaired", "rules", "probes", "is_named"),
    [
        (CHECKED, told("loss_choice", "look_ahead"), told(), ["loss_choice"], ["look_ahead"], True),
        (CHECKED, told("look_ahead"), told("look_ahead"), [], [], False),
        (CAUSED, told("all_zero"), told(), ["all_zero"], [], False),
        (CAUSED, told(CAUSES[CAUSED].rules[0]), told(), [CAUSES[CAUSED].rules[0]], [], True),
    ],
)
def test_beside_a_training_rules_and_probes_count_that_are_silent_on_the_twin(
    name: str, mistaken: Result, repaired: Result, rules: list[str], probes: list[str], is_named: bool
) -> None:
    pair = BesidePair(name, mistaken, repaired)
    assert (pair.rules, pair.probes, pair.is_named_by_a_rule) == (rules, probes, is_named)


def test_the_table_beside_a_training_counts_by_probe_and_sample() -> None:
    table = group_table([BesidePair(CHECKED, told(PROBES[0]), told()), BesidePair(CAUSED, told(), told("all_zero"))])
    assert "| `check_mistakes` | 1 | 0 | 1 | 0 | 0 | 0 |" in table
    assert "| `mistakes` | 1 | 0 | 0 | 1 | 1 | 0 |" in table


def test_a_page_is_not_made_of_a_part_of_the_runs(tmp_path: Path) -> None:
    kept = tmp_path / "beside.jsonl"
    kept.write_text(json.dumps({"name": CAUSED, "error": None, "rules": {}}) + "\n")
    with pytest.raises(ValueError, match="has no result of"):
        read_pairs(kept)


@pytest.mark.slow
def test_programs_in_one_process_are_checked_each_by_itself() -> None:
    chosen = [program for program in programs() if program.name.startswith("model_inputs/")][:4]
    results = check_together(chosen)
    assert [name.endswith("-repaired") for name in results] == [False, True] * 2
    assert ["model_inputs" in one.failed for one in results.values()] == [True, False] * 2


def test_kept_results_are_read_without_those_that_could_not_be_checked(tmp_path: Path) -> None:
    kept = tmp_path / "results.jsonl"
    assert read_results(kept) == {}
    results = [("a", Checked(1.0, error="it ended")), ("b", PASSED), ("a", FAILED), ("c", Checked(1.0, error="no"))]
    kept.write_text("".join(f"{json.dumps({'name': name, 'checked': asdict(one)})}\n" for name, one in results))
    assert read_results(kept) == {"a": FAILED, "b": PASSED}


def test_failures_on_twins_and_healthy_trainings_are_false() -> None:
    name = next(iter(CHECK_MISTAKES))
    results = {name: FAILED, f"{name}-repaired": FAILED, "healthy/a": PASSED, "architectures/b": FAILED}
    assert set(false_failures(results)) == {f"{name}-repaired", "architectures/b"}


def test_programs_with_libraries_have_an_interpreter_of_their_own() -> None:
    assert interpreter("import keras\n").endswith("tensorflow/bin/python")
    assert interpreter("from flax import nnx\n").endswith("jax/bin/python")
    assert interpreter("import torch\nfrom peft import LoraConfig\n") != interpreter("import torch\n# from peft\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", BARE)
def test_programs_run_to_their_end_with_the_mistake_and_without(name: str) -> None:
    for program in programs():
        if program.name in (name, f"{name}-repaired"):
            assert check(program, is_bare=True).error is None
