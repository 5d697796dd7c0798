"""What boosters have in common: rounds, metrics of evaluation sets, importances, SHAP values, trees, predictions."""
