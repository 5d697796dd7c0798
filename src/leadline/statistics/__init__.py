"""Names and definitions of the statistics, and their numpy form."""
