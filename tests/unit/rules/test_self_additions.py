"""The remark on outputs that a model adds to themselves."""

from __future__ import annotations

from leadline.records.series import TensorInfo
from leadline.rules.losses.closing_remarks import ClosingRemarks
from leadline.testing.runs import Capture
from leadline.testing.windows import verdicts

LOSS = TensorInfo("loss", ("losses",), ())


def remarks(*layers: str) -> list[str]:
    checks = [TensorInfo(f"{layer}/added_to_itself", ("checks",), ()) for layer in layers]
    infos = {info.name: info for info in (LOSS, *checks)}
    parts = [
        Capture(step, {"loss": {"value": 1.0}} | {check.name: {"value": 1.0} for check in checks}, infos=infos)
        for step in range(2)
    ]
    return list(verdicts(ClosingRemarks(), parts)[-1][1].product["remarks"])


def test_the_first_layer_is_named_and_the_others_are_counted() -> None:
    assert remarks() == []
    assert remarks("blocks.0.proj")[0].startswith("what blocks.0.proj computes is added to itself (x + x): ")
    assert remarks("a", "b", "c")[0].startswith("what a computes, and that of 2 more layers, is added to itself")
