"""Spans and metrics for OpenTelemetry.

Imports `protocol`, `serialization`, `printable`, `hosting`, `wire`, `core`, `values`, `calls`,
`serving` and `inspect`.
"""
