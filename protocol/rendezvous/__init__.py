"""Rendezvous: nodes meet, agree on their members and ranks, and meet again when those change.

One machine serves two shells. `State` is a plain value without times, and `State.apply` is its only
transition. An `Observer` has a clock and looks at the state. The service, an actor that keeps the
states of its runs (`RendezvousRun`), has one observer for each run. If the nodes share the state by
compare-and-set instead, each node has an observer (`Attendant`). `encode` and `decode` turn a state
into bytes and back.
"""
