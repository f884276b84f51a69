"""What programs call: `System`, and the functions of the library.

Imports `protocol`, `hosting`, `wire`, `core`, `values`, `calls`, `handles`, `serving`, `cluster`,
`looking`, `telemetry` and `shells`.
"""
