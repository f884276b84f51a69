"""The core of an endpoint: steps of the protocol, packets, peers. It knows no part of the user's.

Imports `protocol`, `serialization`, `printable`, `base`, `recording`, `hosting` and `wire`.
"""
