"""A pipeline of actors that pass large arrays by reference, checked against one process.

Frames of 4 MB are cut from scikit-learn's two photographs, as if a camera moved over them.
Actors work on them: some blur, one looks, one finds the edges. They send each other references. An
array moves once, from the process that made it to the one that works on it. The actor that looks
asks for one number (``rpc_async().std()``), which the array's owner computes. Then it passes the
reference on, or drops it. In the second case the array is freed without having moved. The program,
too, asks only for the sums of the rows. Only a few frames are in the pipeline at once.

The sums are compared with those of the same work in one process: they are equal, bit by bit.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from typing import Any, TypeAlias

from rich.progress import Progress
from thespian.actors import ActorAddress

import farref
from farref import FetchTimeoutError, RefActor, RRef, System, WorkerDiedError
from farref.examples.harness import Program, Verdict, needed, run_program

with needed(__name__):
    import numpy as np
    from numpy.typing import NDArray

FRAMES = 16
WIDTH = 400
ON_THE_WAY = 4
"""Frames that are in the pipeline at once."""
FLAT = 0.266
"""The least contrast of a blurred frame; frames below it are dropped."""
Array: TypeAlias = "NDArray[np.float64]"
Sums: TypeAlias = dict[int, Array]
"""The sums of the rows of each frame with enough contrast."""


# ---- the messages


@dataclass
class Connect:
    """To an actor: the receivers of its results, in turn, and the receiver of dropped frames."""

    next: list[ActorAddress]
    program: ActorAddress


@dataclass
class Take:
    """The program to the camera: cut this frame."""

    number: int


@dataclass
class Frame:
    number: int
    pixels: RRef[Array]


@dataclass
class Dropped:
    number: int


# ---- the actors


class Camera(RefActor):
    """Owns the original frames."""

    def receiveMsg_Connect(self, connect: Connect, _sender: ActorAddress) -> None:
        self.next = connect.next

    def receiveMsg_Take(self, take: Take, _sender: ActorAddress) -> None:
        blur = self.next[take.number % len(self.next)]
        self.send(blur, Frame(take.number, RRef(cut(take.number))))


class Blur(RefActor):
    def receiveMsg_Connect(self, connect: Connect, _sender: ActorAddress) -> None:
        (self.next,) = connect.next

    async def receiveMsg_Frame(self, frame: Frame, _sender: ActorAddress) -> None:
        self.send(self.next, Frame(frame.number, RRef(blur(await frame.pixels))))


class Look(RefActor):
    """Passes on frames with enough contrast; fetches none of them."""

    def receiveMsg_Connect(self, connect: Connect, _sender: ActorAddress) -> None:
        (self.next,), self.program = connect.next, connect.program

    async def receiveMsg_Frame(self, frame: Frame, _sender: ActorAddress) -> None:
        contrast = await frame.pixels.rpc_async().std()
        if contrast < FLAT:
            self.send(self.program, Dropped(frame.number))
        else:
            self.send(self.next, frame)


class Edges(RefActor):
    def receiveMsg_Connect(self, connect: Connect, _sender: ActorAddress) -> None:
        self.program = connect.program

    async def receiveMsg_Frame(self, frame: Frame, _sender: ActorAddress) -> None:
        self.send(self.program, Frame(frame.number, RRef(edges(await frame.pixels))))


# ---- the work


@functools.cache
def photographs() -> list[Array]:
    with needed(__name__):
        from sklearn.datasets import load_sample_images  # noqa: PLC0415 - only the camera needs it
    images: Any = load_sample_images().images
    return [image / 255 for image in images]


def cut(number: int) -> Array:
    """Frame *number*: the photographs take turns, and each next frame is further to the right."""
    image = photographs()[number % 2]
    left = (image.shape[1] - WIDTH) * number // FRAMES
    return image[:, left : left + WIDTH].copy()


def blur(pixels: Array) -> Array:
    """The mean of the 5 by 5 pixels around each pixel."""
    for axis in (0, 1):
        pixels = np.mean([np.roll(pixels, step, axis) for step in range(-2, 3)], axis=0)
    return pixels


def edges(pixels: Array) -> Array:
    """How steep the brightness is at each pixel."""
    down, across = np.gradient(pixels.mean(axis=2))
    steep: Array = np.hypot(down, across)
    return steep


# ---- the program


class Pipeline(Program[Sums]):
    def __init__(self) -> None:
        photographs()

    def together(self, system: System, workers: int, progress: Progress) -> Sums:
        camera = self.connect(system, workers)
        names = {worker.name for worker in system.workers()}
        found: Sums = {}
        taken = 0
        for came in progress.track(range(FRAMES), description="frames"):
            while taken < min(came + ON_THE_WAY, FRAMES):
                system.tell(camera, Take(taken))
                taken += 1
            match hear(system, names):
                case Frame(number, pixels):
                    found[number] = pixels.rpc_sync().sum(axis=1)
                case Dropped():
                    pass
                case other:  # the answer of a failed actor
                    raise WorkerDiedError(f"the camera failed: {other}")
        return found

    def connect(self, system: System, workers: int) -> ActorAddress:
        """Make the actors and connect them. Return the address of the first."""
        camera, look, edges = (system.create(each) for each in (Camera, Look, Edges))
        blurs = [system.create(Blur) for _ in range(workers)]
        me = farref.get_worker_info().address
        system.tell(camera, Connect(blurs, me))
        for blur in blurs:
            system.tell(blur, Connect([look], me))
        system.tell(look, Connect([edges], me))
        system.tell(edges, Connect([me], me))
        return camera

    def alone(self, progress: Progress) -> Sums:
        found: Sums = {}
        for number in progress.track(range(FRAMES), description="check"):
            blurred = blur(cut(number))
            if blurred.std() >= FLAT:
                found[number] = edges(blurred).sum(axis=1)
        return found

    def judge(self, found: Sums, expected: Sums) -> Verdict:
        same = found.keys() == expected.keys() and all(
            np.array_equal(sums, expected[number]) for number, sums in found.items()
        )
        size = cut(0).nbytes
        figures = {"frames": FRAMES, "bytes_of_a_frame": size, "dropped": FRAMES - len(found)}
        says = (
            f"{FRAMES} frames of {size / 1e6:.1f} MB; {FRAMES - len(found)} with little contrast "
            "were dropped"
        )
        return Verdict(same, figures, [says], "equal, bit by bit" if same else "NOT equal")


def hear(system: System, names: set[str]) -> object:
    """The next message to the program, within a minute.

    Raises `WorkerDiedError` if one of *names* has died, and `FetchTimeoutError`.
    """
    for _ in range(60):
        with contextlib.suppress(FetchTimeoutError):
            return system.listen(1.0)
        gone = names - {worker.name for worker in system.workers()}
        if gone:
            raise WorkerDiedError(f"{', '.join(gone)} died, and frames with it; run it again")
    raise FetchTimeoutError("no frame came for a minute: one of the actors has failed")


PROGRAM = Pipeline

if __name__ == "__main__":
    run_program(__doc__, PROGRAM)
