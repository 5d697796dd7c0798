"""The answers to agents: what is in them, how long they get, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp_types import TextContent

from leadline.errors import LeadlineError
from leadline.judge.judge import judge_run
from leadline.mcp.answers import Answers, bounded, diagnose
from leadline.mcp.server import make_server
from leadline.records.manifest import RuleSpec
from leadline.testing.runs import Capture, RunWriter

RULES = [RuleSpec("exploding_tensor", "exploding_tensor"), RuleSpec("loss_spike", "loss_spike")]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("all") / "runs"
    RunWriter(folder.parent / "outside").end()
    for name, last in (("broken", math.nan), ("healthy", 0.004)):
        writer = RunWriter(folder / name, rules=RULES)
        values = [1.0 / (step + 1) for step in range(300)]
        values[250:] = [last] * 50
        captures = [
            Capture(step, {"loss": {"value": value}, "fc.weight": {"l2": 1.0 + step}})
            for step, value in enumerate(values)
        ]
        writer.write_all(captures).end()
        judge_run(folder / name, write=True)
    return folder


def test_runs_begin_with_their_verdicts(root: Path) -> None:
    answer = Answers(str(root)).runs()
    assert {run["name"]: run["verdict"] for run in answer["runs"]} == {"broken": "problem", "healthy": "ok"}
    (only,) = Answers(str(root)).runs(limit=1)["runs"]
    assert only["steps"] == 300
    assert "1 more" in Answers(str(root)).runs(limit=1)["next"]


def test_why_names_cause_step_and_advice(root: Path) -> None:
    answer = Answers(str(root)).why("broken")
    (fired,) = answer["fired"]
    assert (fired["rule"], fired["step"], fired["message"]) == ("exploding_tensor", 250, "loss is NaN")
    assert "learning rate" in answer["advice"]
    assert answer["first_sign"] == "step 250: loss is NaN"
    assert Answers(str(root)).why("healthy")["fired"] == []


def test_findings_of_a_rule_have_their_evidence(root: Path) -> None:
    (rule,) = Answers(str(root)).findings("broken")["rules"]
    assert rule["findings"][0]["step"] == 250
    (clear,) = Answers(str(root)).findings("broken", "loss_spike")["rules"]
    assert (clear["rule"], clear["findings"]) == ("loss_spike", [])
    with pytest.raises(LeadlineError, match="loss_spike"):
        Answers(str(root)).findings("broken", "loss_spik")


def test_a_series_has_as_many_points_as_asked(root: Path) -> None:
    answers = Answers(str(root))
    assert answers.series("healthy")["scalars"] == [{"name": "loss", "mode": "train"}]
    points = answers.series("healthy", "loss", points=30)["points"]
    assert 15 <= len(points) <= 30
    assert points[-1]["value"] == 0.004
    assert len(answers.series("healthy", "fc.weight", "l2", points=5)["points"]) <= 5
    assert sum(point["nonfinite"] for point in answers.series("broken", "loss")["points"]) == 50
    with pytest.raises(LeadlineError, match="l2"):
        answers.series("healthy", "fc.weight", "mean")


def test_tensors_comparison_and_time(root: Path) -> None:
    answers = Answers(str(root))
    assert answers.tensors("healthy", pattern="fc")["tensors"] == [
        {"name": "fc.weight", "statistics": ["l2"], "modes": ["train"]}
    ]
    compared = answers.compare("healthy", "broken")
    assert compared["runs"] == ["healthy", "broken"]
    assert compared["rules"]["exploding_tensor"][0] != compared["rules"]["exploding_tensor"][1]
    assert answers.profile("healthy")["run"] == "healthy"


@pytest.mark.parametrize("name", ["../outside", "/etc", "..", "nobody"])
def test_only_runs_of_the_folder_are_opened(root: Path, name: str) -> None:
    with pytest.raises(LeadlineError):
        Answers(str(root)).why(name)


def test_a_log_is_diagnosed(tmp_path: Path) -> None:
    lines = "\n".join(f"step {step} loss {'nan' if step > 60 else 2.0 / (step + 1)}" for step in range(100))
    (tmp_path / "train.log").write_text(lines)
    answer = diagnose(str(tmp_path / "train.log"))
    assert [each["rule"] for each in answer["fired"]] == ["exploding_tensor"]
    assert (answer["log"], answer["rows"]) == ("printed text", 100)
    with pytest.raises(LeadlineError, match="no such file"):
        diagnose(str(tmp_path / "nothing"))


def test_answers_are_short() -> None:
    long: dict[str, Any] = {
        "numbers": [1 / 3] * 1000,
        "text": "x" * 5000,
        "nan": math.nan,
        "many": {str(n): n for n in range(99)},
    }
    short = bounded(long)
    assert short["numbers"][0] == 0.33333
    assert short["numbers"][-1] == "… 980 more"
    assert short["text"].endswith("… (5,000 characters)")
    assert short["nan"] == "NaN"
    assert short["many"]["…"] == "79 more"


def test_the_tools_say_what_they_do_and_only_control_changes_anything(root: Path) -> None:
    async def listed(may_control: bool) -> dict[str, Any]:
        async with Client(make_server(str(root), may_control=may_control)) as client:
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    tools = anyio.run(listed, False)
    assert set(tools) == {"runs", "why", "findings", "series", "tensors", "compare", "profile", "diagnose"}
    assert all(tool.description and tool.annotations.read_only_hint for tool in tools.values())
    assert tools["series"].input_schema["properties"]["points"]["type"] == "integer"
    assert set(anyio.run(listed, True)) - set(tools) == {"stop", "set"}


def test_answers_and_mistakes_reach_the_client(root: Path) -> None:
    async def called() -> tuple[Any, Any, Any, Any]:
        async with Client(make_server(str(root), may_control=True)) as client:
            why = await client.call_tool("why", {"run": "broken"})
            wrong = await client.call_tool("series", {"run": "healthy", "name": "los"})
            code = await client.call_tool("set", {"run": "healthy", "setting": "rule=mine=/tmp/rule.py:Rule"})
            page = await client.read_resource("leadline://runs/broken")
            return why, wrong, code, page

    why, wrong, code, page = anyio.run(called)
    assert why.structured_content["fired"][0]["rule"] == "exploding_tensor"
    assert isinstance(why.content[0], TextContent)
    assert len(why.content[0].text) < 8_000
    assert wrong.is_error
    assert "did you mean 'loss'" in wrong.content[0].text
    assert "Traceback" not in wrong.content[0].text
    assert code.is_error
    assert "no built-in rule" in code.content[0].text
    assert json.loads(page.contents[0].text)["run"] == "broken"
