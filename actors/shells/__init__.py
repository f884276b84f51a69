"""An endpoint put together, and how each base runs it: in actors and in programs.

Imports `protocol`, `serialization`, `printable`, `base`, `recording`, `hosting`, `wire`, `core`,
`values`, `calls`, `handles`, `cycles`, `serving`, `cluster`, `inspect` and `telemetry`.
"""
