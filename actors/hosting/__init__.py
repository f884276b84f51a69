"""The platform of a system: bases by their names, processes, capabilities, versions, logs.

Imports `protocol`, `serialization`, `features`, `printable`, `base` and `recording`.
"""
