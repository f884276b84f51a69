"""Tests of the system base: pure machines, then real processes; nothing is mocked."""
