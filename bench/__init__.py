"""The benchmarks: the same work by farref and by its peers, in one run: ``python -m bench``.

They run from a checkout only, so that users of farref need no Ray driver.

A *benchmark* (`catalogue`) is some work with a name, at one or several *points* (sizes, numbers of
references, workers). A *peer* (`peers`) is a way to do it: farref, PyTorch RPC, Ray, Xoscar,
Dask, RPyC, multiprocessing's Manager, or raw messages of Thespian actors. Each peer runs in a
process tree of its own (`session`). It does one piece of work per command, and reads the clock
itself. Start and rest are measured in programs of their own (`programs`).
Peers take turns (`rounds`), so that noise of the machine affects all alike. Figures are medians; a
ratio compares figures of the same round.
pyperf takes no turns: it measures one function after the other.
"""
