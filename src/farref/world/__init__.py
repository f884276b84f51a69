"""Endpoints in memory: the one shell that trace tests, simulation, explorer and counts share.

It may import `farref.protocol`, and the tracer of `farref.actors`. It imports none of its users.

* `shell`: an endpoint that carries out the effects of the shipped machines;
* `net`: endpoints by name, and the messages between them.
"""
