"""Compaction: sorted Parquet files derived from the segments of a long run, for fast queries."""
