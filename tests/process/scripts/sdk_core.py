"""A script with ``sagemaker.core`` of SDK v3, which has the debugger's members in ``TrainingJob`` alone."""

import json
import sys

from sagemaker.core.resources import TrainingJob
from sagemaker.core.shapes import (
    AlgorithmSpecification,
    CollectionConfiguration,
    DebugHookConfig,
    DebugRuleConfiguration,
    OutputDataConfig,
    ProfilerConfig,
    ProfilerRuleConfiguration,
    ResourceConfig,
    StoppingCondition,
)

bucket = sys.argv[1]
image = "503895931360.dkr.ecr.us-east-1.amazonaws.com/sagemaker-debugger-rules:latest"
job = TrainingJob.create(
    training_job_name="core",
    role_arn="arn:aws:iam::123456789012:role/SageMakerRole",
    algorithm_specification=AlgorithmSpecification(training_image="pytorch", training_input_mode="File"),
    output_data_config=OutputDataConfig(s3_output_path=f"s3://{bucket}/out"),
    resource_config=ResourceConfig(instance_count=1, instance_type="ml.m5.xlarge", volume_size_in_gb=30),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=3600),
    hyper_parameters={
        "sagemaker_program": "debugger_images.py",
        "sagemaker_submit_directory": f"s3://{bucket}/code/sourcedir.tar.gz",
        "epochs": "100000000",
        "init": "faint",
        "pause": "0.02",
    },
    debug_hook_config=DebugHookConfig(
        s3_output_path=f"s3://{bucket}",
        collection_configurations=[
            CollectionConfiguration(collection_name="gradients", collection_parameters={"save_interval": "5"})
        ],
    ),
    debug_rule_configurations=[
        DebugRuleConfiguration(
            rule_configuration_name="VanishingGradient",
            rule_evaluator_image=image,
            rule_parameters={"rule_to_invoke": "VanishingGradient", "action_json": '{"name": "stoptraining"}'},
        )
    ],
    profiler_config=ProfilerConfig(s3_output_path=f"s3://{bucket}", profiling_interval_in_milliseconds=500),
    profiler_rule_configurations=[
        ProfilerRuleConfiguration(
            rule_configuration_name="ProfilerReport",
            rule_evaluator_image=image,
            rule_parameters={"rule_to_invoke": "ProfilerReport"},
        )
    ],
)
job.wait(poll=1)
rows = [*job.debug_rule_evaluation_statuses, *job.profiler_rule_evaluation_statuses]
print(
    json.dumps(
        {
            "name": job.training_job_name,
            "status": job.training_job_status,
            "rules": {row.rule_configuration_name: row.rule_evaluation_status for row in rows},
        }
    )
)
