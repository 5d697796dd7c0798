"""Compaction: what a long run wrote, again as sorted Parquet that a question reads little of."""
