"""The protocol, sans-IO: machines that take a message and say what to do.

Imports no actor framework, socket, thread, clock or random source; time and ids are
arguments. The explorer checks these very classes, and the actors run them.
"""
