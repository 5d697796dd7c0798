"""LightGBM support; no other package imports LightGBM."""
