"""What is uploaded at the end of a job, at the paths that clients expect."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import leadline
from leadline.compat.export.profiles import export_profiles
from leadline.compat.export.system import export_system
from leadline.rules.registry import find_rule
from leadline.serve.container import hosts
from leadline.serve.run_configuration import configured_rules
from leadline.serve.s3_files import S3Files, join
from leadline.serve.sampling import PROFILER, was_profiled
from leadline.store import layout

if TYPE_CHECKING:
    from leadline.serve.job_folder import JobFolder, JobSpecification

MODEL: Final = "model.tar.gz"
_OUTPUT: Final = "output.tar.gz"
_REPORTS: Final = {"profiling": "profiler-output/profiler-report", "xgboost": "xgboost_report"}
"""Where the reports of rules are below the output of the rule, by the product of the rule."""


def model_uri(request: Mapping[str, Any], name: str) -> str:
    """Return where the model of a job is uploaded."""
    return join(request["OutputDataConfig"]["S3OutputPath"], name, "output", MODEL)


def upload(folder: JobFolder, specification: JobSpecification, s3: S3Files, *, has_model: bool) -> None:
    """Upload what a job has written, except its tensors, of which ``TrialUpload`` is.

    Raises:
        S3Error: Something could not be uploaded.
        OSError: A file could not be written.
    """
    request, name = specification.request, specification.name
    output = join(request["OutputDataConfig"]["S3OutputPath"], name)
    if has_model:
        models = [folder.in_container("model", host=host) for host in hosts(request)]
        _upload_archive(folder, models, model_uri(request, name), s3)
    outputs = [folder.in_container("output", "data", host=host) for host in hosts(request)]
    if any(os.listdir(path) for path in outputs):
        _upload_archive(folder, outputs, join(output, "output", _OUTPUT), s3)
    if "CheckpointConfig" in request:
        s3.upload_folder(folder.in_container("checkpoints"), request["CheckpointConfig"]["S3Uri"])
    if "TensorBoardOutputConfig" in request:
        place = join(request["TensorBoardOutputConfig"]["S3OutputPath"], name, "tensorboard-output")
        for host in hosts(request):
            s3.upload_folder(folder.in_container("output", "tensorboard", host=host), place)
    if layout.is_run(folder.run):
        _upload_profile(folder, specification, s3)
        _upload_reports(folder, request, output, s3)


def _upload_archive(folder: JobFolder, contents: Sequence[str], uri: str, s3: S3Files) -> None:
    """Upload the files of all hosts; of files with the same name, that of the first host is unpacked last."""
    path = os.path.join(folder.path, uri.rpartition("/")[2])
    with tarfile.open(path, "w:gz") as archive:
        for content in reversed(contents):
            archive.add(content, arcname=".", filter=readable_member)
    s3.upload(path, uri)
    os.unlink(path)


def readable_member(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member of an archive with the mode that it would have in a container.

    The files of a job are private on this machine. Who may read the archive is decided by the bucket, and who unpacks
    it may be another user than the one who serves the model.
    """
    if member.isfile() or member.isdir():
        readable = 0o555 if member.mode & 0o100 else 0o444
        member.mode |= readable
    return member


def _upload_profile(folder: JobFolder, specification: JobSpecification, s3: S3Files) -> None:
    """Upload system metrics, timeline and Python profiles of the run as smdebug's readers expect them."""
    profiler = specification.request.get(PROFILER, {})
    run = leadline.open_run(folder.run)
    if "S3OutputPath" in profiler and was_profiled(specification.request, run):
        local = folder.in_container("output", "profiler")
        export_system(run, local)
        export_profiles(run, local)
        s3.upload_folder(local, join(profiler["S3OutputPath"], specification.name, "profiler-output"))


def _upload_reports(folder: JobFolder, request: Mapping[str, Any], output: str, s3: S3Files) -> None:
    """Upload the reports that rules have written into the run."""
    for rule in configured_rules(request):
        product = None if rule.source else find_rule(rule.specification().rule).product
        if product not in _REPORTS:
            continue
        place = join(rule.entry.get("S3OutputPath", join(output, "rule-output")), rule.name, _REPORTS[product])
        for file in (layout.report_page(product), layout.report_notebook(product)):
            path = os.path.join(folder.run, file)
            if os.path.exists(path):
                s3.upload(path, f"{place}{os.path.splitext(file)[1]}")
