"""The ProfilerReport that each job gets without having asked for it, rendered after the job has ended."""

from __future__ import annotations

import os
import subprocess
from typing import Final

from leadline.config.report_choice import wants_report
from leadline.process.interpreter import own_command, own_environment
from leadline.records.totals import steps_by_mode
from leadline.serve.job_folder import JobFolder, JobSpecification
from leadline.serve.run_configuration import configured_rules
from leadline.serve.s3_files import S3Files, join
from leadline.store import layout
from leadline.store.run_state import read_workers

NAME: Final = "ProfilerReport"
_MAX_SECONDS: Final = 1800.0


def render_default_report(folder: JobFolder, specification: JobSpecification, s3: S3Files, seconds: float) -> None:
    """Render and upload the report of a job, unless it has no profiler, one of its rules did so, or it was short.

    Args:
        seconds: How long the training took.
    Raises:
        S3Error: It cannot be uploaded.
        OSError: It cannot be rendered.
    """
    request, run = specification.request, folder.run
    profiler = request.get("ProfilerConfig", {"DisableProfiler": True})
    has_own = any(rule.kind == NAME for rule in configured_rules(request))
    if profiler.get("DisableProfiler") or has_own or not layout.is_run(run):
        return
    has_steps = bool(steps_by_mode(read_workers(run).values()))
    if not wants_report(None, os.environ, seconds, has_steps=has_steps):
        return
    command = own_command("leadline.cli.final_report", run)
    result = subprocess.run(command, env=own_environment(), stdin=subprocess.DEVNULL, timeout=_MAX_SECONDS, check=False)
    output = join(request["OutputDataConfig"]["S3OutputPath"], specification.name, "rule-output", NAME)
    for file in (layout.report_page("report"), layout.report_notebook("report")) if result.returncode == 0 else ():
        extension = os.path.splitext(file)[1]
        s3.upload(os.path.join(run, file), f"{join(output, 'profiler-output', 'profiler-report')}{extension}")
