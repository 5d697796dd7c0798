"""Names and definitions of the statistics, and their reference implementation in numpy."""
