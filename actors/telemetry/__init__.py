"""Spans and metrics for OpenTelemetry.

Imports `protocol`, `serialization`, `hosting`, `wire`, `core`, `values`, `calls`, `serving` and
`looking`.
"""
