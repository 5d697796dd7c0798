"""A script as users of SageMaker Debugger wrote it for XGBoost; it also keeps what XGBoost says, for the comparison."""

import argparse
import json

import numpy as np
import xgboost
from smdebug import SaveConfig
from smdebug.xgboost import Hook


def written(path, features, labels):
    """Write a file as SageMaker's algorithm reads it: labels in the first column, and no header."""
    np.savetxt(path, np.column_stack([labels, features]), delimiter=",")
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smdebug_path", type=str)
    parser.add_argument("--truth", type=str)
    args = parser.parse_args()
    random = np.random.default_rng(42)
    features = random.normal(size=(60, 4))
    labels = (features[:, 0] + 0.3 * random.normal(size=60) > 0).astype(float)
    dtrain = xgboost.DMatrix(features[:40], label=labels[:40])
    dval = xgboost.DMatrix(features[40:], label=labels[40:])
    params = {"objective": "binary:logistic", "eval_metric": ["auc", "logloss"], "max_depth": 2, "seed": 1}
    hook = Hook(
        out_dir=args.smdebug_path,
        include_collections=[
            *("metrics", "feature_importance", "predictions", "labels"),
            *("average_shap", "full_shap", "trees", "hyperparameters"),
        ],
        train_data=(written(f"{args.truth}.csv", features[:40], labels[:40]), "csv"),
        validation_data=dval,
        hyperparameters={**params, "eval_metric": "auc,logloss"},
    )
    hook.get_collection("metrics").save_config = SaveConfig(save_interval=2)
    hook.get_collection("feature_importance").save_config = SaveConfig(save_interval=3)
    results = {}
    booster = xgboost.train(
        params,
        dtrain,
        evals=[(dtrain, "train"), (dval, "validation")],
        num_boost_round=7,
        callbacks=[hook],
        evals_result=results,
        verbose_eval=False,
    )
    scores = booster[:4].get_score(importance_type="gain")
    shap = booster[:1].predict(dtrain, pred_contribs=True).mean(0)
    truth = {
        "results": results,
        "gain_at_3": {name: score / sum(scores.values()) for name, score in scores.items()},
        "predictions_at_0": booster[:1].predict(dval).tolist(),
        "labels": dval.get_label().tolist(),
        "shap_at_0": shap.tolist(),
        "nodes_at_0": booster[:1].trees_to_dataframe().shape[0],
    }
    with open(args.truth, "w") as file:
        json.dump(truth, file)


if __name__ == "__main__":
    main()
