"""Inspecting a running system: its references, the reasons why they are held, and its counters.

Imports `protocol`, `serialization`, `plurals`, `printable`, `base`, `recording`, `wire`, `core`,
`values`, `calls`, `handles`, `cycles`, `serving` and `cluster`.
"""
