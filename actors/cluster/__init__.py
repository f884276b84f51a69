"""Who is in the system: the registrar, the hosts' stewards, and deaths.

Imports `protocol`, `serialization`, `printable`, `base`, `hosting`, `wire`, `core` and `calls`.
"""
