"""The Thespian side: the endpoints that speak the protocol, and the system around them.

Its rooms, lower ones first. A room imports only rooms above it in this list, and names them.

base        a Thespian system base of our own
recording   an endpoint's steps as lines, for traces
hosting     the ground of a system: bases, processes, versions, logs
wire        the messages between endpoints
core        the core of an endpoint: steps, packets, peers
values      the user's values: pickled, opened, stored
calls       requests of an endpoint to others
handles     the objects that programs hold: references
cycles      garbage in cycles: searched for, and collected
serving     answers of an endpoint to others
cluster     the members of the system, and their deaths
inspect     the state of a running system: references, counters
telemetry   spans and metrics for OpenTelemetry
shells      an endpoint put together; actors and programs
api         the functions that programs call
rendezvous  groups of nodes that meet
"""
