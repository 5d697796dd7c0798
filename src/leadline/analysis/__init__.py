"""Analysis of recorded runs: phases, resource utilization, ranks, bottlenecks and chart data."""
