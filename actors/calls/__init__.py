"""An endpoint's requests to others, and the futures of the answers.

Imports `protocol`, `serialization`, `base`, `wire`, `core` and `values`.
"""
