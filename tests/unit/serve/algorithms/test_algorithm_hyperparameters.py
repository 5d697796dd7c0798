"""Images of built-in algorithms, their hyperparameters, and the metrics that the library does not have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from leadline.errors import ConfigurationError
from leadline.serve.algorithms import images
from leadline.serve.algorithms.classification import custom_metrics
from leadline.serve.algorithms.errors import UserError
from leadline.serve.algorithms.images import Algorithm, algorithm_of, check_algorithm
from leadline.serve.algorithms.xgboost_hyperparameters import library_parameters, xgboost_hyperparameters


def request(image: str, **hyperparameters: str) -> dict[str, Any]:
    return {"AlgorithmSpecification": {"TrainingImage": image}, "HyperParameters": hyperparameters}


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("141502667606.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-xgboost:1.5-1", "xgboost"),
        ("685385470294.dkr.ecr.eu-west-1.amazonaws.com/xgboost:latest", "xgboost"),
        ("localhost:5000/sagemaker-xgboost@sha256:0123", "xgboost"),
        ("xgboost", "xgboost"),
        ("lightgbm:4", "lightgbm"),
    ],
)
def test_the_repository_of_an_image_names_the_algorithm(image: str, name: str) -> None:
    algorithm = algorithm_of(request(image))
    assert algorithm is not None
    assert algorithm.name == name
    assert algorithm_of(request(image, sagemaker_program="train.py")) is None


@pytest.mark.parametrize("image", ["438346466558.dkr.ecr.eu-west-1.amazonaws.com/linear-learner:1", "my-xgboost:1", ""])
def test_other_images_without_a_program_are_refused(image: str) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no program, and the image .* has no algorithm"):
        check_algorithm(request(image))


def test_an_algorithm_needs_its_library_and_one_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        images, "_BY_REPOSITORY", {"one": Algorithm("one", "no_such_library"), "two": Algorithm("two", "json")}
    )
    with pytest.raises(ConfigurationError, match="pip install no_such_library"):
        check_algorithm(request("one:1"))
    check_algorithm(request("two:1"))
    with pytest.raises(ConfigurationError, match="on one instance only"):
        check_algorithm(request("two:1") | {"ResourceConfig": {"InstanceCount": 2}})


def test_values_have_the_types_and_names_of_the_library() -> None:
    given = {
        "num_round": "25",
        "learning_rate": "0.2",
        "max_depth": "5",
        "silent": "0",
        "objective": "reg:linear",
        "eval_metric": "rmse, mae,mse",
        "tree_method": "gpu_hist",
        "early_stopping_rounds": "3",
        "csv_weights": "1",
    }
    values = xgboost_hyperparameters(given)
    assert (values["num_round"], values["eta"], values["eval_metric"]) == (25, 0.2, ["rmse", "mae", "mse"])
    assert library_parameters(values) == {
        "eta": 0.2,
        "max_depth": 5,
        "objective": "reg:squarederror",
        "eval_metric": ["rmse", "mae"],
        "tree_method": "hist",
        "device": "cuda",
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "Missing required hyperparameter: num_round"),
        ({"num_round": "0"}, "Hyperparameter num_round: 0 is not in [1, inf)"),
        ({"num_round": "2.5"}, "Hyperparameter num_round: could not parse value"),
        ({"eta": "nan"}, "Hyperparameter eta: nan is not in [0, 1]"),
        ({"subsample": "0"}, "Hyperparameter subsample: 0 is not in (0, 1]"),
        ({"eta": "0.1", "learning_rate": "0.2"}, "Hyperparameter eta: given twice, also as learning_rate"),
        ({"epochs": "3"}, "Extraneous hyperparameter found: epochs"),
        ({"booster": "tree"}, "Hyperparameter booster: tree is not in [gbtree, gblinear, dart]"),
        ({"eval_metric": "rmse,loss"}, "Hyperparameter eval_metric: loss is not in [rmse, "),
        ({"eval_metric": "error@x"}, "Hyperparameter eval_metric: could not parse value"),
        ({"monotone_constraints": "(1,2)", "tree_method": "hist"}, "Hyperparameter monotone_constraints: 2 is not in"),
        ({"monotone_constraints": "(1,-1)"}, "monotone_constraints can be used only when the tree_method"),
        (
            {"interaction_constraints": "[[0,1],", "tree_method": "hist"},
            "Hyperparameter interaction_constraints: could",
        ),
        ({"objective": "multi:softmax"}, "Require input for parameter 'num_class' for multi-classification"),
        ({"num_class": "3"}, "Do not need to setup parameter 'num_class'"),
        ({"objective": "reg:squarederror", "eval_metric": "auc"}, "Metric 'auc' can only be applied"),
        ({"updater": "refresh,grow_skmaker", "process_type": "update"}, "process_type 'update' can only be used"),
        ({"updater": "grow_colmaker,grow_histmaker"}, "Only one tree grow plugin can be selected"),
        ({"updater": "prune", "booster": "gblinear"}, "Linear updater should be one of these options"),
    ],
)
def test_invalid_hyperparameters(given: dict[str, str], message: str) -> None:
    rounds = {} if given == {} or "num_round" in given else {"num_round": "5"}
    with pytest.raises(UserError) as refused:
        xgboost_hyperparameters(rounds | given)
    assert str(refused.value).startswith(message)


def test_thresholds_and_constraints_are_accepted() -> None:
    given = {"num_round": "1", "eval_metric": "error@0.3,ndcg@5-", "tree_method": "hist"}
    constraints = {"monotone_constraints": "(1,-1,0)", "interaction_constraints": "[[0, 1], [2]]"}
    values = xgboost_hyperparameters(given | constraints)
    assert values["eval_metric"] == ["error@0.3", "ndcg@5-"]
    assert library_parameters(values)["monotone_constraints"] == "(1,-1,0)"


def test_metrics_equal_plain_counts() -> None:
    labels = np.array([0, 0, 1, 1, 2, 2, 2, 1])
    predicted = np.array([0, 1, 1, 1, 2, 0, 2, 2])
    names = [
        "accuracy",
        "balanced_accuracy",
        "f1",
        "precision_macro",
        "recall_macro",
        "f1_binary",
        "precision",
        "recall",
    ]
    metrics = custom_metrics(names)
    assert metrics is not None
    found = dict(metrics(np.eye(3)[predicted], SimpleNamespace(get_label=lambda: labels)))
    precision, recall, f1 = [], [], []
    for kind in range(3):
        right = sum(1 for a, b in zip(labels, predicted, strict=True) if a == b == kind)
        precision.append(right / sum(predicted == kind))
        recall.append(right / sum(labels == kind))
        f1.append(2 * precision[-1] * recall[-1] / (precision[-1] + recall[-1]))
    expected = {
        "accuracy": 5 / 8,
        "balanced_accuracy": sum(recall) / 3,
        "f1": sum(f1) / 3,
        "precision_macro": sum(precision) / 3,
        "recall_macro": sum(recall) / 3,
        "f1_binary": f1[1],
        "precision": precision[1],
        "recall": recall[1],
    }
    assert found == pytest.approx(expected)
    binary = custom_metrics(["accuracy", "mse", "r2"])
    assert binary is not None
    values = dict(binary(np.array([0.2, 0.9, 0.4]), SimpleNamespace(get_label=lambda: np.array([0.0, 1.0, 1.0]))))
    assert values == pytest.approx({"accuracy": 2 / 3, "mse": 0.41 / 3, "r2": 1 - 0.41 / (2 / 3)})
    assert custom_metrics(["rmse"]) is None
