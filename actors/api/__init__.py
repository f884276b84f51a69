"""The functions that programs call, and `System`.

Imports `protocol`, `serialization`, `plurals`, `printable`, `base`, `hosting`, `wire`, `core`,
`values`, `calls`, `handles`, `cluster`, `inspect`, `telemetry` and `shells`.
"""
