"""Rules for hardware utilization and step times."""
