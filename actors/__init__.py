"""The Thespian side: the endpoints that speak the protocol, and the system around them.

Its rooms, lower ones first. A room imports only those above it in this list, and says which.

base        a Thespian system base of our own
recording   an endpoint's steps as lines, for traces
hosting     what a system runs on: bases, processes, versions, logs
wire        what travels between endpoints
core        the core of an endpoint: steps, packets, peers
values      the user's values: pickled, opened, stored
calls       what an endpoint asks of others
handles     what programs hold: references
serving     what others ask of an endpoint
cluster     who is in the system, and deaths
looking     looking at a running system
telemetry   spans and metrics for OpenTelemetry
shells      an endpoint put together; actors and programs
api         what programs call
rendezvous  groups of nodes that meet
"""
