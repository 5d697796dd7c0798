"""XGBoost support; no other package imports XGBoost."""
