"""The report that a run gets at its end without being asked for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from launching import command, environment, wait_for
from serving import BUCKET, Server, create, ended, s3_store

pytestmark = pytest.mark.slow
NOTHING = (sys.executable, "-c", "pass")


def last_lines(folder: Path, *options: str) -> list[str]:
    words = command(["--name", "run", *options], *NOTHING, root=folder)
    done = subprocess.run(words, cwd=folder, env=environment(LEADLINE_REPORT=""), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [line.strip() for line in done.stderr.splitlines() if line.strip().startswith("report:")]


def test_the_last_lines_name_the_report_that_a_process_renders(tmp_path: Path) -> None:
    assert last_lines(tmp_path, "--report")[-1] == "report: ./runs/run/reports/report.html (in a few seconds)"
    page = tmp_path / "runs" / "run" / "reports" / "report.html"
    wait_for(page.exists, "the report")
    assert "Report of run" in page.read_text()
    assert wait_for(page.with_suffix(".ipynb").exists, "its notebook")


def test_a_run_of_seconds_gets_none(tmp_path: Path) -> None:
    assert last_lines(tmp_path)[-1] == "report: leadline report          dashboard: leadline ui"
    assert not list((tmp_path / "runs" / "run" / "reports").glob("*"))


def test_a_job_gets_its_profiler_report_after_its_end(tmp_path: Path) -> None:
    with s3_store("served.py") as store:
        store.put("data/train/inputs.txt", "\n".join(str(number / 10) for number in range(-10, 10)))
        server = Server(tmp_path / "folder", store.address, LEADLINE_REPORT="1")
        try:
            profiler = {"ProfilerConfig": {"S3OutputPath": f"s3://{BUCKET}/profile"}}
            create(server.client(), "plain", "served.py", {"lr": "0.05"}, **profiler)
            job = ended(server.client(), "plain")
            place = "out/plain/rule-output/ProfilerReport/profiler-output/profiler-report"
            wait_for(lambda: f"{place}.ipynb" in store.keys(place), "the report of the job")
            assert "Report of plain" in store.read(f"{place}.html").decode()
            assert (job["TrainingJobStatus"], job.get("ProfilerRuleEvaluationStatuses", [])) == ("Completed", [])
        finally:
            server.end()
