"""``python -m leadline.serve.rule_process FOLDER RULE``: evaluates a custom rule of smdebug on a running job."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from typing import Final

from leadline.compat.smdebug.exceptions import NoMoreData, RuleEvaluationConditionMet
from leadline.compat.smdebug.install import install
from leadline.compat.smdebug.rules import Rule, invoke_rule
from leadline.compat.smdebug.trials import create_trial
from leadline.config.secrets import scrub
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.records.json_object import JsonObject
from leadline.records.request import Stop
from leadline.serve.job_folder import JobFolder
from leadline.serve.run_configuration import ConfiguredRule, configured_rules
from leadline.serve.s3_files import S3Files
from leadline.serve.training_job import CustomRuleResult, condition_met
from leadline.store import control, layout

_POLL_SECONDS: Final = 0.2
_MODULE: Final = "leadline_custom_rule"


def evaluate(folder: JobFolder, rule: ConfiguredRule, s3: S3Files) -> CustomRuleResult:
    """Fetch the source of a rule, and evaluate the rule until its condition is met, or the training has ended.

    A failure of the rule is its result.
    """
    try:
        s3.download(str(rule.source), folder.rule_source(rule.name))
        while not layout.is_run(folder.run):
            time.sleep(_POLL_SECONDS)
        instance = _create(folder, rule)
        invoke_rule(instance, raise_eval_cond=True)
    except RuleEvaluationConditionMet as met:
        return CustomRuleResult("IssuesFound", condition_met(rule.kind, met.step))
    except NoMoreData:
        return CustomRuleResult("NoIssuesFound", "")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the rule is code of the user
        traceback.print_exc()
        return CustomRuleResult("Error", f"ClientError: {type(error).__name__}: {scrub(str(error))}")
    raise AssertionError("invoke_rule ends with an exception")


def _create(folder: JobFolder, rule: ConfiguredRule) -> Rule:
    """Create the rule on the trial of its job.

    Raises:
        LeadlineError: There is no such class, or another job does not exist.
        Exception: What the code of the user raises.
    """
    kind = _load(folder.rule_source(rule.name), rule.kind)
    parameters: JsonObject = dict(rule.parameters)
    others = [create_trial(os.path.join(folder.runs, name)) for name in rule.other_jobs]
    if others:
        parameters["other_trials"] = others
    return kind(create_trial(folder.run), **parameters)


def _load(path: str, name: str) -> type[Rule]:
    spec = spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{os.path.basename(path)} is not a Python file")
    module = module_from_spec(spec)
    sys.modules[_MODULE] = module
    spec.loader.exec_module(module)
    classes: Mapping[str, type[Rule]] = {
        key: value for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Rule)
    }
    if name not in classes:
        raise UnknownNameError("rule", name, [key for key in classes if key != Rule.__name__])
    return classes[name]


def _stop(folder: JobFolder, rule: ConfiguredRule, reason: str) -> None:
    """Request that the training stops at its next step."""
    request = Stop(control.new_request_id(), reason, f"rule:{rule.name}", time.time_ns())
    control.write_request(folder.run, request)


def main(path: str, name: str) -> None:
    """Evaluate a rule, and write its result into the job folder."""
    install(replace=True)
    folder = JobFolder.at(path)
    specification = folder.specification()
    rule = next(rule for rule in configured_rules(specification.request) if rule.name == name)
    result = evaluate(folder, rule, S3Files(specification.region))
    folder.write_rule_result(name, result)
    if result.status == "IssuesFound" and rule.stops_training:
        _stop(folder, rule, result.details)


if __name__ == "__main__":
    main(*sys.argv[1:])
