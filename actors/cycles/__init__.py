"""Garbage in cycles: which values alone hold a reference, and when to search.

Imports `protocol`, `serialization`, `core`, `values` and `handles`.
"""
