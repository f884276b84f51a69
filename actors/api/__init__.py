"""The functions that programs call, and `System`.

Imports `protocol`, `hosting`, `wire`, `core`, `values`, `calls`, `handles`, `cycles`,
`cluster`, `looking`, `telemetry` and `shells`.
"""
