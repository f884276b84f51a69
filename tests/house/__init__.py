"""Real actors on real systems: every sentence of the API, on every base, bounded in time."""
