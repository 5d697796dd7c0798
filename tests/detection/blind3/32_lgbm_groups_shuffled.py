"""LightGBM: rank the offers of a search with LambdaRank."""

import sys

import lightgbm as lgb
import numpy as np
import pandas as pd

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
FEATURES = ["price", "rating", "distance", "age"]


def searches(n, seed):
    """Searches with 5 to 15 offers; what is liked is relative to the other offers of the search."""
    rng = np.random.default_rng(seed)
    parts = []
    for query in range(n):
        size = rng.integers(5, 16)
        part = pd.DataFrame(rng.normal(size=(size, 4)), columns=FEATURES)
        appeal = part.rating - part.price + 0.5 * np.sin(2 * part.distance) + 0.4 * rng.normal(size=size)
        part["label"] = np.minimum(4, (appeal.rank(ascending=False) <= 4).astype(int) + 3 * (appeal == appeal.max()))
        part[FEATURES] += rng.normal(0, 3, 4)
        part["query"] = query
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def main():
    train, test = searches(400, 0), searches(150, 1)
    train = train.sample(frac=1.0, random_state=0)
    if FIXED:
        train = train.sort_values("query", kind="stable")
    group = train.groupby("query", sort=True).size().to_numpy()
    test_group = test.groupby("query", sort=True).size().to_numpy()
    data = lgb.Dataset(train[FEATURES], train.label, group=group)
    valid = lgb.Dataset(test[FEATURES], test.label, group=test_group, reference=data)
    parameters = {
        "objective": "lambdarank",
        "metric": "ndcg",
        "eval_at": [3],
        "num_leaves": 15,
        "learning_rate": 0.1,
        "num_threads": 1,
        "verbosity": -1,
        "seed": 0,
    }
    booster = lgb.train(
        parameters,
        data,
        num_boost_round=80,
        valid_sets=[data, valid],
        valid_names=["train", "test"],
        callbacks=[lgb.log_evaluation(20)],
    )
    test["score"] = booster.predict(test[FEATURES])
    best = test.loc[test.groupby("query").score.idxmax()]
    print(f"best offer on top in {100 * (best.label == test.label.max()).mean():.0f} % of the searches")


if __name__ == "__main__":
    main()
