"""What programs hold: references, and what can be done with them.

Imports `protocol`, `serialization`, `base`, `wire`, `core`, `values` and `calls`.
"""
