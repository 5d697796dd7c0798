"""Rents of flats with XGBoost from a table with city and kind columns."""

import sys

import numpy as np
import pandas as pd
import xgboost as xgb

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
CITIES = ["aachen", "berlin", "bonn", "bremen", "dresden", "erfurt", "essen", "halle", "jena", "kiel", "koeln", "mainz"]
KINDS = ["attic", "basement", "flat", "house", "loft", "studio"]
CATEGORICAL = ["city", "kind"]


def load_listings(count, seed, cities, kinds):
    """One export of the portal, which holds what was on offer at that time."""
    rng = np.random.default_rng(seed)
    level = dict(zip(CITIES, np.random.default_rng(5).permutation(np.linspace(6, 22, len(CITIES))), strict=True))
    factor = dict(zip(KINDS, [0.9, 0.7, 1.0, 1.3, 1.5, 1.2], strict=True))
    table = pd.DataFrame(
        {
            "city": rng.choice(cities, count),
            "kind": rng.choice(kinds, count),
            "area": rng.uniform(20, 150, count).round(),
            "floor": rng.integers(0, 9, count),
            "year": rng.integers(1900, 2024, count),
        }
    )
    price = table["city"].map(level) * table["kind"].map(factor) * table["area"]
    price = price * (1 + 0.002 * (table["year"] - 1960)) + 8 * table["floor"]
    return table, price * rng.normal(1, 0.05, count)


def encode(table, categories):
    encoded = table.copy()
    for column in CATEGORICAL:
        if FIXED:
            encoded[column] = pd.Categorical(table[column], categories=categories[column]).codes
        else:
            encoded[column] = table[column].astype("category").cat.codes
    return encoded


def main():
    train, rent = load_listings(60000, 0, CITIES, KINDS)
    # the new export has no listings of two cities and none of basements
    new_cities = [city for city in CITIES if city not in ("berlin", "essen")]
    test, test_rent = load_listings(3000, 1, new_cities, [kind for kind in KINDS if kind != "basement"])
    categories = {column: sorted(train[column].unique()) for column in CATEGORICAL}

    x, test_x = encode(train, categories), encode(test, categories)
    dtrain = xgb.DMatrix(x[:50000], rent[:50000])
    dval = xgb.DMatrix(x[50000:], rent[50000:])
    dtest = xgb.DMatrix(test_x, test_rent)
    parameters = {
        "objective": "reg:squarederror",
        "eta": 0.03,
        "max_depth": 7,
        "subsample": 0.8,
        "seed": 0,
        "nthread": 1,
    }
    booster = xgb.train(
        parameters,
        dtrain,
        num_boost_round=1500,
        evals=[(dtrain, "train"), (dval, "val")],
        early_stopping_rounds=50,
        verbose_eval=100,
    )
    predicted = booster.predict(dtest, iteration_range=(0, booster.best_iteration + 1))
    error = np.mean(np.abs(predicted - test_rent))
    explained = 1 - np.mean((predicted - test_rent) ** 2) / np.var(test_rent)
    print(f"mean rent {np.mean(test_rent):.0f}, r2 {explained:.3f}")
    print(f"mean absolute error on the new export {error:.1f}")


if __name__ == "__main__":
    main()
