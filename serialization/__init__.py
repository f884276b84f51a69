"""Pickling that knows references: hooks, payloads, and exceptions that travel.

Imports `protocol`, and nothing of the actors.
"""
