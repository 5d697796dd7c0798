"""LightGBM: the only place that names it."""
