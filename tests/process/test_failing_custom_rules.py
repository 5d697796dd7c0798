"""Custom rules that cannot be fetched, imported or ended: each has failed by itself, and the training goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from amazon import CREDENTIALS, REGION
from serving import BUCKET, Server, Store, create, ended, rule, s3_store

from leadline.records.manifest import Manifest
from leadline.serve import custom_rules
from leadline.serve.custom_rules import CustomRules
from leadline.serve.engine import end_with_parent
from leadline.serve.job_folder import JobFolder, JobSpecification
from leadline.testing.runs import RunWriter

pytestmark = pytest.mark.slow
SOURCES: Final = {
    "unknown": "import no_such_module",
    "broken": "class Mine(:",
    "leaving": "import sys\nsys.exit(3)",
    "killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "hung": "import time\ntime.sleep(3600)",
    "without": "print('no rule')",
}
ROWS: Final = [rule("Mine", name, source_s3_uri=f"s3://{BUCKET}/rules/{name}.py") for name in ("missing", *SOURCES)] + [
    rule("Mine", "elsewhere", source_s3_uri="s3://no-such-bucket/rules/mine.py")
]
REASONS: Final = {
    "missing": f"ClientError: S3Error: s3://{BUCKET}/rules/missing.py: ",
    "elsewhere": "ClientError: S3Error: s3://no-such-bucket/rules/mine.py: ",
    "unknown": "ClientError: ModuleNotFoundError: No module named 'no_such_module'",
    "broken": "ClientError: SyntaxError: ",
    "leaving": "ClientError: SystemExit: 3",
    "killed": "InternalServerError: exit status -9",
    "without": "ClientError: UnknownNameError: no rule named 'Mine'",
    "hung": "ClientError: no result 0.1 s after the end of the training",
}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_store("served.py") as store, pytest.MonkeyPatch.context() as patch:
        for name, value in (CREDENTIALS | {"AWS_ENDPOINT_URL_S3": store.address}).items():
            patch.setenv(name, value)
        store.put("data/train/inputs.txt", "\n".join(str(number / 10) for number in range(-10, 10)))
        for name, source in SOURCES.items():
            store.put(f"rules/{name}.py", source)
        yield store


def test_the_training_goes_on(store: Store, tmp_path: Path) -> None:
    server = Server(tmp_path / "folder", store.address)
    try:
        rows = [row for row in ROWS if row["RuleConfigurationName"] in ("missing", "unknown")]
        hook = {"DebugHookConfig": {"S3OutputPath": f"s3://{BUCKET}/debug"}}
        create(server.client(), "job", "served.py", {"lr": "0.05"}, DebugRuleConfigurations=rows, **hook)
        job = ended(server.client(), "job")
    finally:
        server.end()
    assert (job["TrainingJobStatus"], job.get("FailureReason")) == ("Completed", None)
    for row in job["DebugRuleEvaluationStatuses"]:
        assert row["RuleEvaluationStatus"] == "Error"
        assert row["StatusDetails"].startswith(REASONS[row["RuleConfigurationName"]])


def test_each_failure_is_the_result_of_its_rule(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(custom_rules, "_GRACE_SECONDS", 0.1)
    folder = JobFolder(str(tmp_path), "job")
    request = {"DebugRuleConfigurations": ROWS}
    folder.write_specification(
        JobSpecification("job", "arn", REGION, request, Manifest("job", folder.run, (), 0, ""), {})
    )
    RunWriter(Path(folder.run)).end()
    rules = CustomRules(folder, request, end_with_parent)
    rules.start()
    while any(folder.rule_result(name) is None for name in REASONS if name != "hung"):
        rules.poll()
    rules.finish()
    results = {name: folder.rule_result(name) for name in REASONS}
    assert {result and result.status for result in results.values()} == {"Error"}
    for name, result in results.items():
        assert result is not None
        assert result.details.startswith(REASONS[name])
