"""A small in-memory world that runs the shipped machines, and the explorer that walks it.

Read in this order: `script` (the actions of programs), `endpoint` (the shell), `world` (the network
and death), `explorer` (breadth-first search), `always`, `rest` and `never` (the properties),
`programs`, `mutation`. `wire` is the world of two delivery channels.
"""
