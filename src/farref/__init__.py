"""Remote references for Thespian actors.

An actor hands out references to the objects it owns; other actors and programs pass them on,
fetch their values and call their methods, and each object is freed as soon as nobody holds a
reference to it any more.
"""

__all__: list[str] = []
