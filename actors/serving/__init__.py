"""Requests of others to an endpoint: running functions and methods.

Imports `protocol`, `serialization`, `base`, `wire`, `core`, `values`, `calls` and `handles`.
"""
