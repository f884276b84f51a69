"""The objects that programs hold: references, proxies and the front.

Imports `protocol`, `serialization`, `base`, `wire`, `core`, `values` and `calls`.
"""
