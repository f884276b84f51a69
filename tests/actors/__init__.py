"""Tests with real actors on real systems: all of the API, on every base, bounded in time."""
