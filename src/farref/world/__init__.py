"""Endpoints in memory: the trace tests run on them, and the explorer and simulation of `tests`.

This package imports `farref.protocol` and the tracer of `farref.actors`, and nothing that uses it.

* `shell`: an endpoint that carries out the effects of the shipped machines;
* `net`: endpoints by name, and the messages between them.
"""
