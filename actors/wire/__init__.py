"""What travels between endpoints, and what a system's endpoints agree on.

Imports `protocol`, `serialization` and `base`.
"""
