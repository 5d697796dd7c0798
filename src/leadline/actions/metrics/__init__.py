"""Where the gauges of a run can be published, one file for each kind of place."""
