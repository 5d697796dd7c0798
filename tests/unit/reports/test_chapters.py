"""The chapters of a report hold what is in the run, and say why where nothing is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_runs import COUNT, HOSTILE, STARVED, bare_run, machine_run

from leadline.errors import UnknownNameError
from leadline.reader.run import Run
from leadline.reports import profiling, training
from leadline.reports.findings import findings
from leadline.reports.gpu_starvation import CPU, IO, bottleneck, find_starved
from leadline.reports.html import render
from leadline.reports.job import summary
from leadline.reports.machine import load_balancing
from leadline.reports.report import build
from leadline.reports.section import Chapter, Section, Table
from leadline.reports.sources import Sources

PROFILING = [
    "job-summary",
    "system-usage",
    "framework-metrics",
    "rules-summary",
    "step-durations",
    "gpu-utilization",
    "batch-size",
    "cpu-bottlenecks",
    "io-bottlenecks",
    "load-balancing",
    "gpu-memory",
]
TRAINING = ["losses", "gradients", "weights", "findings", "configuration", "environment", "reproduce"]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return Sources(Run(machine_run(tmp_path_factory.mktemp("runs") / "run")))


@pytest.fixture
def bare(tmp_path: Path) -> Sources:
    return Sources(Run(bare_run(tmp_path / "run")))


def every(sections: tuple[Section, ...]) -> Iterator[Section]:
    for each in sections:
        yield each
        yield from every(each.parts)


def rows(table: Table) -> list[dict[str, Any]]:
    return [dict(zip((each.title for each in table.columns), row, strict=True)) for row in table.rows]


def section(chapter: Chapter, key: str) -> Section:
    return next(each for each in chapter.sections if each.key == key)


def test_the_profiling_report_has_its_eleven_sections_in_order(sources: Sources) -> None:
    chapter = profiling.chapter(sources)
    assert [each.key for each in chapter.sections] == PROFILING
    empty = {each.key for each in chapter.sections if each.why_empty}
    assert empty == set()
    for each in chapter.sections:
        assert each.charts or each.key == "rules-summary"
        assert all(table.rows for table in each.tables if "no step took more" not in table.title)


def test_the_training_report_has_its_sections_in_order(sources: Sources) -> None:
    chapter = training.chapter(sources)
    assert [each.key for each in chapter.sections] == TRAINING
    assert section(chapter, "weights").why_empty


@pytest.mark.parametrize("make", [profiling.chapter, training.chapter])
def test_a_run_of_nothing_says_why_everywhere(bare: Sources, make: Any) -> None:
    chapter = make(bare)
    told = {"job-summary", "configuration", "environment", "reproduce"}
    for each in chapter.sections:
        assert bool(each.why_empty) == (each.key not in told)
        assert "\n" not in each.why_empty


def test_no_figure_shows_nothing(sources: Sources, bare: Sources) -> None:
    for each in (sources, bare):
        for one in every(profiling.chapter(each).sections + training.chapter(each).sections):
            for chart in one.charts:
                assert not (chart.figure.layout.meta or {}).get("empty")


def test_the_parts_of_the_job_are_all_of_it(sources: Sources) -> None:
    told = rows(summary(sources).tables[0])
    shares = [row["share"] for row in told if row["share"] is not None]
    assert sum(shares) == pytest.approx(100.0)
    assert next(row["time"] for row in told if row["part"] == "job") == sources.job.seconds


def test_starved_samples_are_those_that_a_loop_finds(sources: Sources) -> None:
    found = find_starved(sources.run, CPU)
    assert found is not None
    assert (found.starved, found.low, found.busy) == (2 * len(STARVED), 0, 2 * (COUNT - len(STARVED)))
    waiting_for_io = find_starved(sources.run, IO)
    assert waiting_for_io is not None
    assert waiting_for_io.starved == 0
    assert waiting_for_io.low == 2 * len(STARVED) + (COUNT - len(STARVED))  # one GPU is never above 70 %


def test_the_share_of_the_bottleneck_is_told_in_words(sources: Sources) -> None:
    assert bottleneck(sources, CPU).paragraphs[0].endswith(f"in {100 * 15 / 60:.1f} % of 120 samples of all GPUs.")


def test_uneven_gpus_are_named(sources: Sources) -> None:
    words = " ".join(load_balancing(sources).paragraphs)
    means = [np.mean([0.0 if each in STARVED else peak for each in range(COUNT)]) for peak in (95.0, 47.5)]
    assert f"node/gpu0 {means[0]:.0f} % on average, node/gpu1 {means[1]:.0f} %" in words


def test_an_outlier_of_the_steps_is_listed(sources: Sources) -> None:
    durations = section(profiling.chapter(sources), "step-durations")
    assert {(row["worker"], row["step"]) for row in rows(durations.tables[1])} >= {("rank0-1", 77), ("rank1-2", 77)}
    statistics = {row["worker/mode"]: row for row in rows(durations.tables[0])}
    assert statistics["rank0-1/train"]["steps"] == 100
    assert statistics["rank0-1/train"]["max"] == pytest.approx(1005.0)


def test_losses_begin_and_end_as_captured(sources: Sources) -> None:
    told = {row["name"]: row for row in rows(training.losses(sources).tables[0])}
    assert set(told) == {"loss", *HOSTILE}
    assert (told["loss"]["first"], told["loss"]["last"], told["loss"]["values"]) == (2.0, pytest.approx(0.02), 100)


def test_findings_come_in_the_order_in_which_they_happened_each_with_its_chart(sources: Sources) -> None:
    told = findings(sources)
    assert [row["step"] for row in rows(told.tables[0])] == [20, 50, 90]
    assert [part.title for part in told.parts] == [
        "Step 20: exploding_tensor",
        "Step 50: loss_spike",
        "Step 90: low_gpu_utilization",
    ]
    for part, kind in zip(told.parts, ("step", "step", "time"), strict=True):
        (chart,) = part.charts
        assert chart.figure.layout.meta["axis"] == kind
        assert any(shape.name == "finding" for shape in chart.figure.layout.shapes)


def test_rules_of_the_profiler_that_were_judged_for_the_report_are_told(bare: Sources) -> None:
    part = {
        "rule": "step_outlier",
        "verdict": "fired",
        "times_triggered": 2,
        "moments": 9,
        "parameters": {"stddev": 5.0},
        "why": "",
        "first": {"step": 3, "message": "slow", "suggestion": "look", "evidence": {"steps": 11}},
    }
    told = section(profiling.chapter(Sources(bare.run, [part])), "rules-summary")
    (row,) = rows(told.tables[0])
    assert (row["rule"], row["verdict"], row["times triggered"], row["data points"]) == ("step_outlier", "fired", 2, 9)
    words = " ".join(told.parts[0].paragraphs)
    assert "Found first at step 3: slow." in words
    assert "Try: look." in words


def test_a_whole_report_is_small_and_whole(sources: Sources) -> None:
    report = build(sources.run)
    assert [each.key for each in report.chapters] == ["training", "profiling"]
    page = render(report)
    assert 4_000_000 < len(page.encode()) < 8_000_000
    assert "<script>alert(1)" not in page
    for name, value in report.facts:
        assert name
        assert value


def test_there_are_no_other_chapters(sources: Sources) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'profiling'"):
        build(sources.run, ("profilin",))


def test_percentiles_of_gpus_are_numpys_over_all_samples(sources: Sources) -> None:
    use = [0.0 if each in STARVED else 95.0 for each in range(COUNT)]
    told = section(profiling.chapter(sources), "gpu-utilization").tables[0]
    first = rows(told)[0]
    assert (first["device"], first["mean"]) == ("GPU 0", pytest.approx(np.mean(use)))
    assert (first["p95"], first["p5"]) == (np.percentile(use, 95), np.percentile(use, 5))
