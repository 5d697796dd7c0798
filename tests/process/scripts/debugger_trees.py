"""A script as the notebooks of SageMaker Debugger have them for XGBoost: abalone and MNIST, here generated."""

import argparse
import os
import time

import numpy as np
import xgboost
from smdebug.xgboost import Hook


class Pause(xgboost.callback.TrainingCallback):
    def __init__(self, path):
        self.path = path

    def after_iteration(self, model, epoch, evals_log):
        while epoch == 20 and self.path and not os.path.exists(self.path):
            time.sleep(0.1)
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_round", type=int, default=30)
    parser.add_argument("--eta", type=float, default=0.3)
    parser.add_argument("--classes", type=int, default=0)
    parser.add_argument("--until", type=str, default="", help="the file for which round 20 waits")
    args = parser.parse_args()
    random = np.random.default_rng(7)
    features = random.normal(size=(300, 6))
    labels = features[:, 0] * 3 + features[:, 1] ** 2 + 0.2 * random.normal(size=300)
    params = {"objective": "reg:squarederror", "eta": args.eta, "max_depth": 3}
    if args.classes:
        labels = np.digitize(labels, np.quantile(labels, np.linspace(0, 1, args.classes + 1)[1:-1]))
        params |= {"objective": "multi:softmax", "num_class": args.classes}
    dtrain = xgboost.DMatrix(features[:200], label=labels[:200])
    dval = xgboost.DMatrix(features[200:], label=labels[200:])
    hook = Hook.create_from_json_file()
    hook.train_data = dtrain
    hook.validation_data = dval
    booster = xgboost.train(
        params,
        dtrain,
        evals=[(dtrain, "train"), (dval, "validation")],
        num_boost_round=args.num_round,
        callbacks=[hook, Pause(args.until)],
        verbose_eval=False,
    )
    booster.save_model(os.path.join(os.environ["SM_MODEL_DIR"], "model.json"))


if __name__ == "__main__":
    main()
