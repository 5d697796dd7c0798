"""File formats of others, each with one reader and one writer: they know nothing of runs."""
