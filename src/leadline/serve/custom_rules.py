"""The processes that evaluate the custom rules of a job."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from leadline.process.interpreter import own_command, own_environment
from leadline.serve.job_folder import JobFolder
from leadline.serve.run_configuration import configured_rules
from leadline.serve.training_job import CustomRuleResult
from leadline.store import layout
from leadline.store.documents import make_folder

_GRACE_SECONDS: Final = 60.0
"""How long a rule may continue after the training has ended, as on SageMaker."""
_POLL_SECONDS: Final = 0.1


class CustomRules:
    """The custom rules of one job, each in a process of its own that ends with this one.

    What fails of a rule, its source included, is the result of the rule: the training goes on.

    Args:
        request: What CreateTrainingJob was given.
        end_with_parent: Called in a new process, so that the kernel ends it with this one.
    """

    def __init__(self, folder: JobFolder, request: Mapping[str, Any], end_with_parent: Callable[[], None]) -> None:
        self._folder, self._end_with_parent = folder, end_with_parent
        self._rules = [rule.name for rule in configured_rules(request) if rule.source]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start the processes; they fetch the sources, and wait for the run."""
        for name in self._rules:
            path = self._folder.rule_log(name)
            make_folder(os.path.dirname(path))
            with open(path, "ab") as log:
                self._processes[name] = subprocess.Popen(
                    own_command("leadline.serve.rule_process", self._folder.path, name),
                    env=own_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    preexec_fn=self._end_with_parent,
                )

    def poll(self) -> None:
        """Record the results of rules that were stopped, or whose process has ended without one."""
        for name, process in list(self._processes.items()):
            if self._folder.is_rule_stop_requested(name):
                self._end(name, CustomRuleResult("Stopped", ""))
            elif process.poll() is not None:
                self._end(name, CustomRuleResult("Error", f"InternalServerError: exit status {process.returncode}"))

    def finish(self) -> None:
        """Wait for the results after the training has ended, and end the rules that take too long."""
        limit = time.monotonic() + (_GRACE_SECONDS if layout.is_run(self._folder.run) else 0)
        while self._processes and time.monotonic() < limit:
            self.poll()
            time.sleep(_POLL_SECONDS)
        late = CustomRuleResult("Error", f"ClientError: no result {_GRACE_SECONDS:g} s after the end of the training")
        for name in list(self._processes):
            self._end(name, late)

    def _end(self, name: str, result: CustomRuleResult) -> None:
        """End a process, and record a result unless it has written one itself."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()
        if self._folder.rule_result(name) is None:
            self._folder.write_rule_result(name, result)
