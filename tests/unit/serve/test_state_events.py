"""Events of jobs, received by a real server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from api_caller import CREATE, MANIFEST, server_settings
from endpoints import Reply, http_endpoint
from test_job_queue import new_job, progress

from leadline.errors import ConfigurationError
from leadline.serve.job_queue import JobQueue
from leadline.serve.state_events import StateEvents
from leadline.serve.state_file import StateFile


def test_changes_of_jobs_and_rules_are_posted_once_and_in_order(tmp_path: Path) -> None:
    with http_endpoint(Reply(503), Reply()) as endpoint:
        settings = server_settings(tmp_path)
        events = StateEvents("http://127.0.0.1:$PORT/hook", settings, {"PORT": str(endpoint.port)})
        state = StateFile(str(tmp_path / "state.sqlite"))
        queue = JobQueue(state, settings, on_change=events.changed)
        queue.add(replace(new_job("job", 5_000_000), tags={"team": "vision"}), MANIFEST)
        queue.folder(queue.jobs()[0]).write_progress(progress("Starting", "Training"))
        queue.advance()
        queue.advance()
        queue.change(replace(queue.jobs()[0], tags={"team": "speech"}))  # no status
        events.close()
        state.close()
    first, again, last = [received.json for received in endpoint.received]
    assert first == again  # a retry
    assert endpoint.received[0].headers["idempotency-key"] == first["id"]
    assert (first["source"], first["detail-type"]) == ("aws.sagemaker", "SageMaker Training Job State Change")
    assert first["resources"] == ["arn:aws:sagemaker:us-east-1:000000000000:training-job/job"]
    created: dict[str, Any] = first["detail"]
    assert (created["TrainingJobStatus"], created["SecondaryStatus"]) == ("InProgress", "Pending")
    assert (created["CreationTime"], created["Tags"]) == ("5", {"team": "vision"})
    assert created["DebugHookConfig"] == CREATE["DebugHookConfig"]
    assert last["detail"]["TrainingJobStatus"] == "Failed"
    assert [row["RuleEvaluationStatus"] for row in last["detail"]["DebugRuleEvaluationStatuses"]] == ["Error"]
    assert last["detail"]["SecondaryStatusTransitions"][1]["StartTime"] == "0"


def test_invalid_urls(tmp_path: Path) -> None:
    for url, message in (("ftp://host", "must begin with http"), ("http://$NOWHERE", "NOWHERE is not set")):
        with pytest.raises(ConfigurationError, match=message):
            StateEvents(url, server_settings(tmp_path), {})
