"""Recording: an endpoint's steps as lines, for traces.

Imports `protocol`, `serialization` and `printable`.
"""
