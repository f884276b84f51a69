"""Pickling that knows references: hooks, payloads, shared memory, and exceptions that travel.

Imports `protocol`, and nothing of the actors.
"""
