"""What an endpoint asks of others, and the futures of the answers.

Imports `protocol`, `serialization`, `base`, `wire`, `core` and `values`.
"""
