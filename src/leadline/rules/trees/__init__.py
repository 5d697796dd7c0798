"""Rules for boosted trees."""
