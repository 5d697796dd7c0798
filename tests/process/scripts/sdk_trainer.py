"""A script with ``ModelTrainer`` of SDK v3: a training as it is, and one to whose request the debugger is added."""

import json
import sys

from sagemaker.core.resources import TrainingJob
from sagemaker.core.shapes import (
    CollectionConfiguration,
    DebugHookConfig,
    DebugRuleConfiguration,
    ProfilerConfig,
    ProfilerRuleConfiguration,
)
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, OutputDataConfig, SourceCode, StoppingCondition

bucket, source = sys.argv[1:]
image = "503895931360.dkr.ecr.us-east-1.amazonaws.com/sagemaker-debugger-rules:latest"


def trainer(script, **hyperparameters):
    return ModelTrainer(
        training_image="pytorch",
        source_code=SourceCode(source_dir=source, entry_script=script),
        compute=Compute(instance_type="ml.m5.xlarge", instance_count=1),
        output_data_config=OutputDataConfig(s3_output_path=f"s3://{bucket}/out"),
        stopping_condition=StoppingCondition(max_runtime_in_seconds=3600),
        base_job_name="trainer",
        hyperparameters=hyperparameters,
    )


request = trainer("debugger_images.py", epochs=100000000, init="faint", pause=0.02)._create_training_job_args()
debugged = TrainingJob.create(
    **request,
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
    profiler_config=ProfilerConfig(s3_output_path=f"s3://{bucket}"),
    profiler_rule_configurations=[
        ProfilerRuleConfiguration(
            rule_configuration_name="ProfilerReport",
            rule_evaluator_image=image,
            rule_parameters={"rule_to_invoke": "ProfilerReport"},
        )
    ],
)
plain = trainer("sdk_trained.py", steps=5)
plain.train(wait=True, logs=True)
debugged.wait(poll=1)
trained = TrainingJob.get(plain._latest_training_job.training_job_name)
rows = [*debugged.debug_rule_evaluation_statuses, *debugged.profiler_rule_evaluation_statuses]
print(
    json.dumps(
        {
            "name": debugged.training_job_name,
            "status": debugged.training_job_status,
            "rules": {row.rule_configuration_name: row.rule_evaluation_status for row in rows},
            "trained": trained.training_job_status,
            "model": trained.model_artifacts.s3_model_artifacts,
        }
    )
)
