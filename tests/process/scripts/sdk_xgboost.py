"""SageMaker's XGBoost in algorithm mode with SDK v2, as Debugger's notebooks have it."""

import json
import sys
import time

from sagemaker import image_uris
from sagemaker.debugger import CollectionConfig, DebuggerHookConfig, ProfilerRule, Rule, rule_configs
from sagemaker.estimator import Estimator
from sagemaker.inputs import TrainingInput

bucket = sys.argv[1]
REGRESSION = {"max_depth": "5", "eta": "0.2", "gamma": "4", "min_child_weight": "6", "subsample": "0.7", "silent": "0"}


def estimator(name, hyperparameters, collections, interval, **more):
    configs = [CollectionConfig(name=one, parameters={"save_interval": str(interval)}) for one in collections]
    return Estimator(
        role="SageMakerRole",
        base_job_name=name,
        instance_count=1,
        instance_type="ml.m5.xlarge",
        image_uri=image_uris.retrieve("xgboost", "eu-west-1", version="0.90-2"),
        hyperparameters=hyperparameters,
        max_run=1800,
        output_path=f"s3://{bucket}/out",
        debugger_hook_config=DebuggerHookConfig(s3_output_path=f"s3://{bucket}", collection_configs=configs),
        **more,
    )


def fit(one, data):
    inputs = {
        channel: TrainingInput(f"s3://{bucket}/{data}/{channel}", content_type="libsvm")
        for channel in ("train", "validation")
    }
    one.fit(inputs, wait=False)


decreasing = Rule.sagemaker(
    rule_configs.loss_not_decreasing(), rule_parameters={"collection_names": "metrics", "num_steps": "10"}
)
rules = estimator(
    "builtin-rules",
    {**REGRESSION, "objective": "reg:squarederror", "num_round": "51"},
    ("metrics", "feature_importance", "average_shap"),
    5,
    rules=[decreasing, ProfilerRule.sagemaker(rule_configs.ProfilerReport())],
)
fit(rules, "regression")
live = estimator(
    "realtime",
    {
        **{name: value for name, value in REGRESSION.items() if name != "subsample"},
        "objective": "multi:softmax",
        "num_class": "4",
        "num_round": 60,
    },
    ("metrics", "predictions", "labels"),
    3,
)
fit(live, "classes")
while any(row["RuleEvaluationStatus"] == "InProgress" for row in rules.latest_training_job.rule_job_summary()):
    time.sleep(1)
rules.latest_training_job.wait(logs=None)
print(
    json.dumps(
        {
            "job": rules.latest_training_job.name,
            "rules": {
                row["RuleConfigurationName"]: row["RuleEvaluationStatus"]
                for row in rules.latest_training_job.rule_job_summary()
            },
            "tensors": rules.latest_job_debugger_artifacts_path(),
            "model": rules.model_data,
        }
    )
)
