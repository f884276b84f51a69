"""Requests of others to an endpoint: running functions and methods.

Imports `protocol`, `serialization`, `printable`, `base`, `wire`, `core`, `values`, `calls` and
`handles`.
"""
