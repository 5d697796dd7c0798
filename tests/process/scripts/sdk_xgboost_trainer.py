"""SageMaker's XGBoost in algorithm mode with SDK v3: ``ModelTrainer``, and a request with a rule that stops."""

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
from sagemaker.train.configs import Compute, InputData, OutputDataConfig, StoppingCondition

bucket = sys.argv[1]
image = "503895931360.dkr.ecr.us-east-1.amazonaws.com/sagemaker-debugger-rules:latest"


def rule(name, **parameters):
    given = {"rule_to_invoke": name, **parameters}
    return {"rule_configuration_name": name, "rule_evaluator_image": image, "rule_parameters": given}


def trainer(**hyperparameters):
    return ModelTrainer(
        training_image="141502667606.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-xgboost:1.7-1",
        compute=Compute(instance_type="ml.m5.xlarge", instance_count=1),
        output_data_config=OutputDataConfig(s3_output_path=f"s3://{bucket}/out"),
        stopping_condition=StoppingCondition(max_runtime_in_seconds=3600),
        base_job_name="trainer",
        hyperparameters=hyperparameters,
        input_data_config=[
            InputData(channel_name="train", data_source=f"s3://{bucket}/regression/train", content_type="libsvm")
        ],
    )


request = trainer(num_round=1000000, eta=0)._create_training_job_args()
stopped = TrainingJob.create(
    **request,
    debug_hook_config=DebugHookConfig(
        s3_output_path=f"s3://{bucket}",
        collection_configurations=[
            CollectionConfiguration(collection_name="metrics", collection_parameters={"save_interval": "1"})
        ],
    ),
    debug_rule_configurations=[
        DebugRuleConfiguration(
            **rule(
                "LossNotDecreasing",
                collection_names="metrics",
                num_steps="10",
                action_json='{"name": "stoptraining"}',
            )
        )
    ],
    profiler_config=ProfilerConfig(s3_output_path=f"s3://{bucket}"),
    profiler_rule_configurations=[ProfilerRuleConfiguration(**rule("ProfilerReport"))],
)
plain = trainer(num_round=25, objective="reg:squarederror", max_depth=3)
plain.train(wait=True, logs=True)
stopped.wait(poll=1)
trained = TrainingJob.get(plain._latest_training_job.training_job_name)
rows = [*stopped.debug_rule_evaluation_statuses, *stopped.profiler_rule_evaluation_statuses]
print(
    json.dumps(
        {
            "name": stopped.training_job_name,
            "status": stopped.training_job_status,
            "rules": {row.rule_configuration_name: row.rule_evaluation_status for row in rows},
            "trained": trained.training_job_status,
            "model": trained.model_artifacts.s3_model_artifacts,
        }
    )
)
