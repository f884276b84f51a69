"""Requests of others to an endpoint: running functions and methods.

Imports `protocol`, `serialization`, `printable`, `base`, `core`, `values`, `calls` and `handles`.
"""
