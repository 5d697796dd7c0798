"""XGBoost: the only place that names it."""
