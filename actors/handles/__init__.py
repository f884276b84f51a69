"""The objects that programs hold: references, proxies and the front.

Imports `protocol`, `serialization`, `printable`, `base`, `wire`, `core`, `values` and `calls`.
"""
