"""The membership of a system: the registrar, the agents of its hosts, and deaths.

Imports `protocol`, `serialization`, `printable`, `base`, `hosting`, `wire`, `core` and `calls`.
"""
