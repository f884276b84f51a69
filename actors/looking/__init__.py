"""Looking at a running system: references, the reasons why they are held, counters, recordings.

Imports `protocol`, `serialization`, `plurals`, `printable`, `base`, `recording`, `wire`, `core`,
`values`, `calls`, `handles`, `cycles`, `serving` and `cluster`.
"""
