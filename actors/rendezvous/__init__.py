"""Rendezvous for actors and programs: the service, its standby, its clients, and the note's names.

The service is an actor, so nobody contends for anything: `hosted` has what it keeps of one run,
`service` what can be asked of it, `standby` how another process comes to have the same. `client` is
an endpoint's side; `handler` the interface that the note names, `group` what programs use of it.

Imports `protocol`, `hosting`, `wire`, `core`, `handles` and `shells`.
"""
