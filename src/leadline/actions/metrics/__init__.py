"""Exporters of the gauges of a run, one module for each system."""
