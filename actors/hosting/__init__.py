"""What a system runs on: bases by their names, processes, hosts' capabilities, versions, logs.

Imports `protocol`, `serialization`, `features`, `base` and `recording`.
"""
