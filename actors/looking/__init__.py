"""Looking at a running system: references, the reasons why they are held, counters, recordings.

Imports `protocol`, `serialization`, `plurals`, `base`, `recording`, `wire`, `core`, `values`,
`calls`, `handles`, `cycles`, `serving` and `cluster`.
"""
