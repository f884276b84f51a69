"""The messages between endpoints, and the settings that a system's endpoints share.

Imports `protocol`, `serialization` and `base`.
"""
