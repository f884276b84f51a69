"""Recording: an endpoint's steps as lines, for traces.

Imports `protocol` and `serialization`.
"""
