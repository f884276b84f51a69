"""The functions that programs call, and `System`.

Imports `protocol`, `serialization`, `hosting`, `wire`, `core`, `values`, `calls`, `handles`,
`cycles`, `cluster`, `looking`, `telemetry` and `shells`.
"""
