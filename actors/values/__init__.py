"""The user's values: pickled for messages, opened, and stored at their owners.

Imports `protocol`, `serialization`, `printable`, `base`, `wire` and `core`.
"""
