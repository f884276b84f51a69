"""Endpoints in memory: the one shell that trace tests, simulation, explorer and counts share.

Imports `farref.protocol`, and the tracer of `farref.actors`; knows none of those who use it.

* `shell`: an endpoint that carries out the effects of the shipped machines;
* `net`: endpoints by name, and the messages between them.
"""
