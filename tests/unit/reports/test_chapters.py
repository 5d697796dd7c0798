"""The chapters of a report contain the data of the run, and reasons where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_runs import COUNT, MALICIOUS, STARVED, bare_run, machine_run

from leadline.errors import UnknownNameError
from leadline.reader.run import Run
from leadline.reports import profiling, training
from leadline.reports.files import render
from leadline.reports.machine import CPU, IO, bottleneck, find_starved, load_balancing
from leadline.reports.profiling import summary
from leadline.reports.report import build
from leadline.reports.section import Chapter, Section, Table
from leadline.reports.sources import Sources
from leadline.reports.training import findings

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
    for entry in sections:
        yield entry
        yield from every(entry.parts)


def rows(table: Table) -> list[dict[str, Any]]:
    return [dict(zip((column.title for column in table.columns), row, strict=True)) for row in table.rows]


def section(chapter: Chapter, key: str) -> Section:
    return next(entry for entry in chapter.sections if entry.key == key)


def test_the_profiling_report_has_its_eleven_sections_in_order(sources: Sources) -> None:
    chapter = profiling.chapter(sources)
    assert [entry.key for entry in chapter.sections] == PROFILING
    empty = {entry.key for entry in chapter.sections if entry.why_empty}
    assert empty == set()
    for entry in chapter.sections:
        assert entry.charts or entry.key == "rules-summary"
        assert all(table.rows for table in entry.tables if "no step was longer" not in table.title)


def test_the_training_report_has_its_sections_in_order(sources: Sources) -> None:
    chapter = training.chapter(sources)
    assert [entry.key for entry in chapter.sections] == TRAINING
    assert section(chapter, "weights").why_empty


@pytest.mark.parametrize("make", [profiling.chapter, training.chapter])
def test_sections_of_an_empty_run_have_reasons(bare: Sources, make: Any) -> None:
    chapter = make(bare)
    never_empty = {"job-summary", "configuration", "environment", "reproduce"}
    for entry in chapter.sections:
        assert bool(entry.why_empty) == (entry.key not in never_empty)
        assert "\n" not in entry.why_empty


def test_no_figure_is_empty(sources: Sources, bare: Sources) -> None:
    for run_sources in (sources, bare):
        for entry in every(profiling.chapter(run_sources).sections + training.chapter(run_sources).sections):
            for chart in entry.charts:
                assert not (chart.figure.layout.meta or {}).get("empty")


def test_the_phases_of_the_job_add_up(sources: Sources) -> None:
    table = rows(summary(sources).tables[0])
    shares = [row["share"] for row in table if row["share"] is not None]
    assert sum(shares) == pytest.approx(100.0)
    assert next(row["duration"] for row in table if row["part"] == "job") == sources.job.seconds


def test_counts_of_starved_samples(sources: Sources) -> None:
    counts = find_starved(sources.run, CPU)
    assert counts is not None
    assert (counts.starved, counts.low, counts.busy) == (2 * len(STARVED), 0, 2 * (COUNT - len(STARVED)))
    waiting_for_io = find_starved(sources.run, IO)
    assert waiting_for_io is not None
    assert waiting_for_io.starved == 0
    assert waiting_for_io.low == 2 * len(STARVED) + (COUNT - len(STARVED))  # one GPU is never above 70 %


def test_the_share_of_the_bottleneck_in_the_text(sources: Sources) -> None:
    assert bottleneck(sources, CPU).paragraphs[0].endswith(f"in {100 * 15 / 60:.1f} % of 120 samples of all GPUs.")


def test_uneven_gpus_are_named(sources: Sources) -> None:
    text = " ".join(load_balancing(sources).paragraphs)
    means = [np.mean([0.0 if sample in STARVED else peak for sample in range(COUNT)]) for peak in (95.0, 47.5)]
    assert f"node/gpu0 {means[0]:.0f} % on average, node/gpu1 {means[1]:.0f} %" in text


def test_an_outlier_of_the_steps_is_listed(sources: Sources) -> None:
    durations = section(profiling.chapter(sources), "step-durations")
    assert {(row["worker"], row["step"]) for row in rows(durations.tables[1])} >= {("rank 0", 77), ("rank 1", 77)}
    statistics = {(row["worker"], row["mode"]): row for row in rows(durations.tables[0])}
    assert statistics["rank 0", "train"]["steps"] == 100
    assert statistics["rank 0", "train"]["max"] == pytest.approx(1005.0)


def test_first_and_last_values_of_losses(sources: Sources) -> None:
    table = {row["name"]: row for row in rows(training.losses(sources).tables[0])}
    assert set(table) == {"loss", *MALICIOUS}
    assert (table["loss"]["first"], table["loss"]["last"], table["loss"]["values"]) == (2.0, pytest.approx(0.02), 100)


def test_findings_are_in_chronological_order_with_charts(sources: Sources) -> None:
    all_findings = findings(sources)
    assert [(row["step"], row["state"]) for row in rows(all_findings.tables[0])] == [
        (20, "resolved"),
        (50, "resolved"),
        (90, "until the end"),
    ]
    assert [part.title for part in all_findings.parts] == [
        "Step 20: exploding_tensor",
        "Step 50: loss_spike",
        "Step 90: low_gpu_utilization",
    ]
    for part, kind in zip(all_findings.parts, ("step", "step", "time"), strict=True):
        (chart,) = part.charts
        assert chart.figure.layout.meta["axis"] == kind
        assert any(shape.name == "finding" for shape in chart.figure.layout.shapes)


def test_profiler_rules_evaluated_for_the_report_are_shown(bare: Sources) -> None:
    result = {
        "rule": "step_outlier",
        "verdict": "fired",
        "times_triggered": 2,
        "moments": 9,
        "parameters": {"stddev": 5.0},
        "why": "",
        "first": {"step": 3, "message": "slow", "suggestion": "look", "evidence": {"steps": 11}},
    }
    rules = section(profiling.chapter(Sources(bare.run, [result])), "rules-summary")
    assert rules.tables == ()
    text = " ".join(rules.parts[0].paragraphs)
    assert text.startswith("Fired 2 times, in 9 evaluated steps.")
    assert "First finding at step 3: slow." in text
    assert "Try: look." in text


def test_size_and_contents_of_a_full_report(sources: Sources) -> None:
    report = build(sources.run)
    assert [chapter.key for chapter in report.chapters] == ["training", "profiling"]
    page = render(report)
    assert 1_400_000 < len(page.encode()) < 2_000_000
    assert "<script>alert(1)" not in page
    for name, value in report.facts:
        assert name
        assert value


def test_unknown_chapters(sources: Sources) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'profiling'"):
        build(sources.run, ("profilin",))


def test_percentiles_of_gpus_are_numpys_over_all_samples(sources: Sources) -> None:
    use = [0.0 if sample in STARVED else 95.0 for sample in range(COUNT)]
    table = section(profiling.chapter(sources), "gpu-utilization").tables[0]
    first = rows(table)[0]
    assert (first["device"], first["mean"]) == ("GPU 0", pytest.approx(np.mean(use)))
    assert (first["p95"], first["p5"]) == (np.percentile(use, 95), np.percentile(use, 5))
