"""Whole programs in virtual time: see `farref.simulation`."""
