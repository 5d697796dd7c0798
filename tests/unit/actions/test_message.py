"""The text of notifications, line by line."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from notices import FINDING

from leadline.actions import message
from leadline.records.notification import Notification, NotificationKind, TensorSnapshot
from leadline.store.documents import encode

TEXT = """\
loss is NaN, and 28 more tensors

run       demo-1120 (InProgress, started 2026-11-20 15:36:40 UTC)
rule      loud (exploding_tensor)
step      1,313
worker    rank0-12
time      2026-11-20 15:53:20 UTC
folder    /home/me/leadline runs/demo-1120

Try: the advice of nonfinite_origin first; this usually follows from it

Numbers:
  nan_count               3
  limit                   ∞
  share                   0.123

29 tensors, the first 2:
  loss (scalar, float32)
    mean NaN
    values NaN
  gradient/fc.weight (8x4, bfloat16)
    min -1.23, max 3e10
    values 0.1 0.2 0.3 1 2 3 4 5 …
    file:///runs/demo/000001.safetensors#train/1313/fc.weight

1 of 3 rules fired: loud

details: leadline show '/home/me/leadline runs/demo-1120'
stop: leadline stop '/home/me/leadline runs/demo-1120'"""


def of_rule(kind: NotificationKind, status: str, **fields: Any) -> Notification:
    return Notification("1", kind, "demo", "/a", status, 1, rule="slow", **fields)


def test_a_finding_has_event_place_run_advice_and_first_tensors() -> None:
    assert message.title(FINDING) == "loud fired at step 1,313 in demo-1120"
    assert message.text(FINDING) == TEXT


@pytest.mark.parametrize(
    ("notification", "title"),
    [
        (of_rule("closed", "IssuesFound", step=12), "slow resolved at step 12 in demo"),
        (
            of_rule("rule_status", "NoIssuesFound", previous="InProgress", verdict="clear"),
            "slow in demo: NoIssuesFound (clear), before InProgress",
        ),
        (of_rule("rule_status", "Error"), "slow in demo: Error"),
        (
            Notification("1", "job_status", "demo", "/a", "Completed", 1, previous="InProgress"),
            "demo: Completed, before InProgress",
        ),
    ],
)
def test_the_other_kinds(notification: Notification, title: str) -> None:
    assert message.title(notification) == title
    assert message.text(notification).startswith(f"{title}\n\nrun ")


def test_the_stop_command_is_not_shown_after_the_end() -> None:
    assert "leadline stop" not in message.text(replace(FINDING, job_status="Completed"))


def test_five_of_many_tensors_are_shown() -> None:
    many = replace(FINDING, tensors=tuple(TensorSnapshot(f"t{each}") for each in range(20)), tensor_count=20)
    text = message.text(many)
    assert "20 tensors, the first 5:\n  t0\n  t1\n  t2\n  t3\n  t4\n\n" in text
    assert "t5" not in text


def test_one_tensor_is_not_called_tensors() -> None:
    assert "\n1 tensor:\n  t\n" in message.text(replace(FINDING, tensors=(TensorSnapshot("t"),), tensor_count=1))


@pytest.mark.parametrize("max_characters", [20, 70, 160, 500])
def test_a_text_message_is_one_line_of_limited_length(max_characters: int) -> None:
    said = message.short(replace(FINDING, message="line one\nline two " * 40), max_characters)
    assert len(said) <= max_characters
    assert "\n" not in said
    assert said.isascii()
    assert said.startswith("leadline: loud fired"[: max_characters - 3])
    assert said.endswith("...")


def test_a_short_text_message_is_complete() -> None:
    assert message.short(FINDING, 160) == (
        "leadline: loud fired at step 1,313 in demo-1120: loss is NaN, and 28 more tensors"
    )


def test_a_notification_from_json_has_the_same_text() -> None:
    assert message.text(Notification.from_dict(json.loads(encode(FINDING.to_dict())))) == TEXT.replace(
        "limit                   ∞", "limit                   Infinity"
    )


def test_names_of_numbers_never_run_into_their_values() -> None:
    evidence = {"CrossEntropyLoss_output_0": math.nan, "x" * 24: 5, "short": 1}
    numbers = message.text(replace(FINDING, evidence=evidence)).partition("Numbers:\n")[2].splitlines()[:3]
    assert [tuple(line.split()) for line in numbers] == [
        ("CrossEntropyLoss_output_0", "NaN"),
        ("x" * 24, "5"),
        ("short", "1"),
    ]
    assert len({len(line) - len(line.split()[1]) for line in numbers}) == 1
