"""The user's values: pickled for messages, opened, and stored at their owners.

Imports `protocol`, `serialization`, `base`, `wire` and `core`.
"""
