"""Garbage in cycles: which values alone hold a reference, and when to search.

Imports `protocol`, `serialization`, `printable`, `base`, `core`, `values` and `handles`.
"""
