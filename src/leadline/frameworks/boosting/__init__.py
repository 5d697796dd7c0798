"""Support shared by the gradient boosting frameworks: rounds, scores, importances, SHAP values, trees, predictions."""
