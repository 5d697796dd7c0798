"""LightGBM: will a parcel be late? The postcode is replaced by its share of late parcels."""

import sys

import lightgbm as lgb
import numpy as np
import pandas as pd

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"


def parcels(n, rng, rates):
    frame = pd.DataFrame(
        {
            "postcode": rng.integers(0, len(rates), n),
            "weight": rng.gamma(2.0, 2.0, n),
            "distance": rng.uniform(5, 400, n),
            "weekday": rng.integers(0, 7, n),
        }
    )
    score = rates[frame.postcode] + 0.006 * (frame.distance - 200) + 0.6 * (frame.weekday >= 5) - 0.3
    frame["late"] = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    return frame


def encode(train, others, smoothing=0.0):
    """Adds the mean of the target for each postcode."""
    mean = train.late.mean()

    def means(part):
        grouped = part.groupby("postcode").late.agg(["sum", "count"])
        return (grouped["sum"] + smoothing * mean) / (grouped["count"] + smoothing)

    if FIXED:
        folds = np.arange(len(train)) % 5
        values = pd.Series(mean, index=train.index)
        for fold in range(5):
            values[folds == fold] = train.postcode[folds == fold].map(means(train[folds != fold])).fillna(mean)
    else:
        values = train.postcode.map(means(train))
    encoded = [train.assign(postcode_late=values)]
    encoded += [o.assign(postcode_late=o.postcode.map(means(train)).fillna(mean)) for o in others]
    return encoded


def auc(score, y):
    ranks = pd.Series(score).rank().to_numpy()
    positive = y == 1
    return (ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2) / (positive.sum() * (~positive).sum())


def main():
    rng = np.random.default_rng(0)
    rates = 0.5 * rng.normal(size=1500)
    frame = parcels(5000, rng, rates)
    train, val = frame.iloc[:4000].reset_index(drop=True), frame.iloc[4000:].reset_index(drop=True)
    train, val, later = encode(train, [val, parcels(5000, rng, rates)])
    features = ["postcode_late", "weight", "distance", "weekday"]
    model = lgb.train(
        {"objective": "binary", "metric": "auc", "learning_rate": 0.05, "num_leaves": 15, "verbose": -1, "seed": 0},
        lgb.Dataset(train[features], train.late),
        num_boost_round=150,
        valid_sets=[lgb.Dataset(train[features], train.late), lgb.Dataset(val[features], val.late)],
        valid_names=["train", "val"],
        callbacks=[lgb.log_evaluation(50)],
    )
    print(dict(zip(features, model.feature_importance("gain").round().tolist())))
    print(f"final AUC of later parcels {auc(model.predict(later[features]), later.late.to_numpy()):.4f}")


if __name__ == "__main__":
    main()
