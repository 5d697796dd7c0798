"""Numbers with names in lines of text, as scripts print them."""

from __future__ import annotations

import math
import time

import pytest

from leadline.formats.named_numbers import MAX_CHARACTERS, named_numbers, number_of


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("val acc: 0.91", {"val acc": 0.91}),
        ("Accuracy: 91.2%", {"Accuracy": 0.912}),
        ("Accuracy (%): 91", {"Accuracy": 0.91}),
        ("Loss (train): 0.31 | Loss (val): 0.40", {"train Loss": 0.31, "val Loss": 0.4}),
        ("Test accuracy (top-1): 76.3%", {"Test accuracy top-1": 0.763}),
        ("F1 (macro): 0.62, F1 (micro): 0.71", {"F1 macro": 0.62, "F1 micro": 0.71}),
        ("loss (0.3) acc (0.9)", {}),
        ("val MAE $31.2", {"val MAE": 31.2}),
        ("val loss (ema) 0.4", {"val loss ema": 0.4}),
        ("loss (ema) 0.4", {}),
        ("EMA val acc: 0.9", {"val EMA acc": 0.9}),
        ("my_val_acc: 0.9", {"val my_val_acc": 0.9}),
        ("val_loss (ema): 0.4", {"val_loss ema": 0.4}),
        ("epoch 3 | loss 0.3 | val_loss 0.4", {"loss": 0.3, "val_loss": 0.4}),
        ("Epoch 3/10 - loss: 1,234.5 - val_f1: 88.1", {"loss": 1234.5, "val_f1": 88.1}),
        (
            "Test set: Average loss: 0.03, Accuracy: 9890/10000 (99%)",
            {"Test Average loss": 0.03, "Test Accuracy": 0.989},
        ),
        ("[val] loss 0.3 acc 0.8", {"val loss": 0.3, "val acc": 0.8}),
        ("Train Loss: 0.3, Val Loss: 0.4, Acc: 0.9", {"Train Loss": 0.3, "Val Loss": 0.4, "Val Acc": 0.9}),
        ("{'eval_accuracy': tensor(0.91, device='cuda:0')}", {"eval_accuracy": 0.91, "cuda": 0.0}),
        ("{'f1': np.float64(0.5)}", {"f1": 0.5}),
        (" * Acc@1 74.950 Acc@5 92.1", {"Acc@1": 74.95, "Acc@5": 92.1}),
        ("    accuracy                           0.91       100", {"accuracy": 0.91}),
        ("2026-11-29 02:23:43,957 INFO end of epoch 1 | time:  0.12s | valid ppl    22.76", {"valid ppl": 22.76}),
        ("\x1b[1mval dice\x1b[0m 0.99", {"val dice": 0.99}),
        ("best val acc: 0.93", {"best val acc": 0.93}),
        ("temperature=0.7", {"temperature": 0.7}),
        ("R2: -1.5e-1", {"R2": -0.15}),
        ("version 1.2.3", {}),
        ("100 200 300", {}),
        ("weighted avg       0.91      0.9      0.9       100", {}),
    ],
)
def test_names_and_values(line: str, numbers: dict[str, float]) -> None:
    assert {number.name: number.value for number in named_numbers(line)} == pytest.approx(numbers)


def test_a_number_that_is_not_finite_is_a_number() -> None:
    assert math.isnan(named_numbers("val_loss=nan")[0].value)


@pytest.mark.parametrize(
    "line",
    [
        "class 3 acc: 0.2",
        "Acc@1  75.00 ( 74.95)",
        "val_acc 0.8 acc 0.9",
    ],
)
def test_what_may_be_of_other_data_is_in_doubt(line: str) -> None:
    assert not named_numbers(line)[-1].is_clear


def test_a_sign_makes_a_name_explicit() -> None:
    assert [number.is_explicit for number in named_numbers("loss 0.1 loss: 0.2 loss=0.3")] == [False, True, True]


@pytest.mark.parametrize(
    "text",
    ["0" * 9000, "1,000" * 999, "a " * 9000 + "1", "(" * 9000 + "1", "tensor(" * 999 + "1", "0 (0 " * 999, "=1" * 9000],
)
def test_no_line_takes_long(text: str) -> None:
    began = time.process_time()
    named_numbers(text)
    whole = time.process_time() - began
    began = time.process_time()
    named_numbers(text[: MAX_CHARACTERS // 4])
    assert whole < 0.1 + 40 * (time.process_time() - began)


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.91", 0.91), (" 91.2 % ", 0.912), ("1,234", 1234.0), ("abc", None), ("1 2", None), ("", None)],
)
def test_a_number_that_stands_alone(text: str, number: float | None) -> None:
    assert number_of(text) == (None if number is None else pytest.approx(number))
