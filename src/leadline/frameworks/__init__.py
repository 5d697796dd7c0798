"""The only place that names a framework; one folder each."""
