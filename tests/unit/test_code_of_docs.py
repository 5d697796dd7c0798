"""Python code of pages that no other test runs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import leadline.integrations
from leadline.testing.runs import Capture, RunWriter

DOCS = Path(__file__).parents[2] / "docs"


def code(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_custom_rule_passes_its_test() -> None:
    rule, _, test = code("how-to/custom-rules.md")
    names: dict[str, object] = {"__name__": "my_rules"}
    exec(rule, names)
    exec(test, names)


def test_the_needs_of_several_collections_are_valid() -> None:
    (needs,) = re.findall(r"`(Needs\(tensors=.*?)`,? ?", (DOCS / "how-to/custom-rules.md").read_text())
    names: dict[str, object] = {}
    exec("from leadline.rules import Needs, TensorNeed", names)
    assert [need.collection for need in eval(needs.rstrip(".,"), names).tensors] == ["weights", "gradients"]


def test_a_run_is_read_without_leadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "leadline-runs" / "my-run"
    RunWriter(str(run)).write_all([Capture(0, {"loss": {"value": 2.5}})]).end()
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    (reading,) = code("reference/run-format.md")
    assert "import leadline" not in reading
    exec(reading, names)
    assert [name for name, *_ in names["tensors"]] == ["loss"]
    assert names["table"].num_rows == 1


def test_the_callbacks_of_the_page_exist_with_these_options() -> None:
    """Their libraries are in other environments; tests/process trains with each."""
    modules = [line.split()[1] for block in code("how-to/trainers.md") for line in block.splitlines()[:1]]
    package = Path(leadline.integrations.__file__).parent
    assert {module.rpartition(".")[2] for module in modules} | {"__init__", "watched_loop"} == {
        path.stem for path in package.glob("*.py")
    }
    options = re.search(r"\(\.\./reference/python/training\.md\): (.*?)\. ", (DOCS / "how-to/trainers.md").read_text())
    assert options is not None
    known = set(inspect.signature(leadline.watch).parameters)
    assert set(re.findall(r"`(\w+)`", options[1])) <= known
