"""An endpoint's requests to others, and the futures of the answers.

Imports `protocol`, `serialization`, `printable`, `base`, `wire`, `core` and `values`.
"""
