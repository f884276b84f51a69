"""The benchmarks: the same work by farref and by its peers, in one run: ``python -m bench``.

They run from a checkout only: whoever uses farref needs no driver of Ray's.

A *benchmark* (`catalogue`) is some work with a name, at one or several *points* (sizes, numbers of
references, workers). A *peer* (`peers`) is a way to do it: farref, PyTorch RPC, Ray, Xoscar, or raw
messages of Thespian actors. Each peer runs in a process tree of its own (`session`), which does one
piece of work when it is told to, and reads the clock itself. They take turns (`rounds`), so that a
noisy machine disturbs all alike; figures are medians, and ratios are of the same round. pyperf
takes no turns: it measures one function after the other.
"""
