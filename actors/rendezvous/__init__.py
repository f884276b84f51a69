"""Rendezvous for actors and programs: the service, its standby, its clients, and the note's names.

The service is an actor, so no two nodes contend for anything. `hosted` has the service's data of
one run, `service` answers requests, `standby` copies the data to another process. `client` is an
endpoint's side, `handler` the note's interface, and `group` the part of it for programs.

Imports `protocol`, `printable`, `base`, `hosting`, `wire`, `core`, `handles` and `shells`.
"""
