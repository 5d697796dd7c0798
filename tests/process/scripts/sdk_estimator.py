"""A script as users of SageMaker's SDK v2 have it: an estimator with a rule that stops the job, and its results."""

import json
import sys
import time

from sagemaker.debugger import (
    CollectionConfig,
    DebuggerHookConfig,
    ProfilerConfig,
    ProfilerRule,
    Rule,
    rule_configs,
)
from sagemaker.pytorch import PyTorch

estimator = PyTorch(
    entry_point="debugger_images.py",
    source_dir=sys.argv[1],
    role="SageMakerRole",
    framework_version="1.12",
    py_version="py38",
    instance_type="ml.m5.xlarge",
    instance_count=1,
    base_job_name="vanishing",
    hyperparameters={"epochs": 100000000, "init": "faint", "pause": 0.02},
    rules=[
        Rule.sagemaker(rule_configs.vanishing_gradient(), actions=rule_configs.ActionList(rule_configs.StopTraining())),
        ProfilerRule.sagemaker(rule_configs.ProfilerReport()),
    ],
    debugger_hook_config=DebuggerHookConfig(
        collection_configs=[
            CollectionConfig(name="gradients", parameters={"save_interval": "5"}),
            CollectionConfig(name="losses", parameters={"save_interval": "1"}),
        ]
    ),
    profiler_config=ProfilerConfig(system_monitor_interval_millis=500),
)
estimator.fit(wait=False)
job = estimator.latest_training_job
while job.describe()["TrainingJobStatus"] not in ("Completed", "Failed", "Stopped"):
    time.sleep(1)
attached = PyTorch.attach(job.name)
print(
    json.dumps(
        {
            "name": job.name,
            "status": job.describe()["TrainingJobStatus"],
            "rules": {row["RuleConfigurationName"]: row["RuleEvaluationStatus"] for row in job.rule_job_summary()},
            "tensors": estimator.latest_job_debugger_artifacts_path(),
            "output": estimator.output_path,
            "attached": attached.latest_training_job.name,
        }
    )
)
