"""Segments of shared memory: their contents, their access rights, and their end by the kernel."""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farref import ProtocolError, SenderDiedError, SerializationError, SharedMemoryFullError
from farref.serialization import memory, shared
from farref.serialization.frozen import ALONE, LIGHT, Frozen
from farref.serialization.payload import Payload
from farref.serialization.shared import Segment

from ..marks import SHARED_MEMORY
from ..pressing import Pressing, pressed
from ..waiting import eventually
from .endpoint import TinyAddress, TinyEndpoint
from .passing import (
    Late,
    arrived,
    in_child,
    interrupted_everywhere,
    limited,
    near,
    opened,
    other_process,
    packed,
)

pytestmark = [SHARED_MEMORY, pytest.mark.usefixtures("nothing_stays_open")]
SIZE = 1 << 20


def descriptors() -> int:
    """The number of this process's descriptors, without those of kept segments."""
    shared.recycler.empty()
    return len(os.listdir("/proc/self/fd"))


# ---- the types that travel


class Exporter:
    """Any type with a buffer, such as one of Arrow."""

    def __init__(self, data: Any) -> None:
        self.data = memoryview(data)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Exporter, (pickle.PickleBuffer(self.data),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exporter) and bytes(self.data) == bytes(other.data)

    __hash__ = None  # type: ignore[assignment]  # unhashable, as Python says it


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


VALUES: dict[str, Callable[[], Any]] = {
    "C order": lambda: np.arange(SIZE, dtype=np.uint8).reshape(1024, -1),
    "Fortran order": lambda: np.asfortranarray(np.arange(SIZE, dtype=np.uint16).reshape(1024, -1)),
    "gaps": lambda: np.arange(4 * SIZE).reshape(2048, -1)[::2, ::3],
    "no length": lambda: np.empty((0, 7)),
    "no dimension": lambda: np.array(3.5),
    "objects": lambda: np.array([{"a": bytes(SIZE)}, None, "x"], dtype=object),
    "times": lambda: np.arange(SIZE).astype("M8[s]").reshape(2, -1),
    "times in Fortran order": lambda: np.asfortranarray(np.arange(SIZE).reshape(2, -1), "M8[ms]"),
    "spans with gaps": lambda: np.arange(SIZE).astype("m8[25us]").reshape(64, -1)[::3, ::-2],
    "one time": lambda: np.array("2026-11-26", "M8[D]"),
    "no times": lambda: np.empty((0, 7), "M8"),
    "structures": lambda: np.zeros(SIZE, dtype=[("a", "<i4"), ("b", "S3")]),
    "bytes": lambda: os.urandom(SIZE),
    "bytearray": lambda: bytearray(os.urandom(SIZE)),
    "small": lambda: [b"abc", bytearray(b"def"), np.ones(3)],
    "read-only": lambda: read_only(np.arange(SIZE)),
    "small and read-only": lambda: [read_only(np.arange(10))],
    "a buffer of any type": lambda: Exporter(bytearray(os.urandom(SIZE))),
    "one that may not be written to": lambda: Exporter(os.urandom(SIZE)),
}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and one.dtype != object:
        return type(other) is np.ndarray and one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, np.ndarray | list):
        return all(same(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and bool(one == other)


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_as_it_was(name: str) -> None:
    value = VALUES[name]()
    for payload in (packed(value), packed(value, lambda: False)):
        came = opened(arrived(payload))
        assert same(value, came)
        if "read-only" in name:
            assert not (came[0] if type(came) is list else came).flags.writeable
    assert same(value, opened(packed(value)))  # sent to itself


READ_ONLY = {
    *("C order", "Fortran order", "gaps", "structures", "small"),
    *("times", "times in Fortran order", "spans with gaps", "one time"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_frozen_value_comes_as_it_was_and_cannot_be_changed(name: str) -> None:
    """On every way: by shared memory or in a frame, large or small."""
    value = VALUES[name]()
    frozen = Frozen.of(value, TinyAddress)
    payload = Payload(frozen.pickled.data, frozen.pickled.buffers, frozen=True)
    fetched = [Frozen.arrived(arrived(each), ()) for each in (payload, payload.grounded())]
    for each in 2 * [frozen, *fetched]:
        came = each.thaw()
        assert same(value, came)
        if name in READ_ONLY:
            array = came[2] if name == "small" else came
            with pytest.raises(ValueError, match="assignment destination is read-only"):
                array[...] = array[...]
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.setflags(write=True)
            array.copy()[...] = 0


@pytest.mark.parametrize("name", ["times", "times in Fortran order"])
def test_a_frozen_array_of_times_is_in_shared_memory(name: str) -> None:
    frozen = Frozen.of(VALUES[name](), TinyAddress)
    assert frozen.shared == 8 * SIZE
    assert frozen.light
    swapped = VALUES[name]().astype(">M8[ms]")
    assert same(swapped, Frozen.of(swapped, TinyAddress).thaw())


EXCEPTIONS: dict[str, Callable[[], Any]] = {
    "objects": lambda: np.array([None, "x"], dtype=object),
    "times in structures": lambda: np.zeros(3, dtype=[("a", "M8[s]")]),
    "a masked array": lambda: np.ma.array([1, 2]),
    "records": lambda: np.zeros(3, dtype=[("a", "i4")]).view(np.recarray),
}


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_a_frozen_array_without_a_buffer_is_a_copy_for_each(name: str) -> None:
    """As docs/values.md says."""
    frozen = Frozen.of(EXCEPTIONS[name](), TinyAddress)
    one, other = frozen.thaw(), frozen.thaw()
    assert one.flags.writeable
    assert not np.shares_memory(one, other)


def test_only_large_buffers_are_shared_and_only_with_those_who_are_near() -> None:
    few = shared.TOGETHER.start - 1
    value = [np.zeros(shared.THRESHOLD, np.uint8), np.zeros(few, np.uint8)]
    kinds = [type(each) for each in packed(value).buffers]
    assert kinds == [Segment, bytearray]
    assert [type(each) for each in packed(value, lambda: False).buffers] == [bytearray] * 2

    def never() -> bool:
        raise AssertionError("asked for nothing")

    packed(value[1], never)


def test_several_share_one_segment() -> None:
    """A value with many arrays takes one descriptor and one mapping, and each keeps its place."""
    sizes = [5, *[shared.TOGETHER.start + number for number in range(40)], 0, 70]
    value = [np.full(size, number, np.uint8) for number, size in enumerate(sizes)]
    value[3].flags.writeable = False
    value.insert(9, np.full(shared.TOGETHER.stop, 99, np.uint8))
    for frozen in False, True:
        pickled: Any = Frozen.of(value, TinyAddress) if frozen else None
        payload = packed(value)
        buffers = pickled.pickled.buffers if frozen else payload.buffers
        assert sum(type(each) is Segment for each in buffers) == 2  # the large one has its own
        came = pickled.thaw() if frozen else opened(arrived(payload))
        assert all(map(np.array_equal, came, value))
        writable = [each.flags.writeable for each in came]
        assert writable == [not frozen and number != 3 for number in range(len(value))]
        grounded = payload.grounded()
        assert not any(type(each) is Segment for each in grounded.buffers)
        assert all(map(np.array_equal, opened(grounded), value))


@pytest.mark.parametrize("size", [1, ALONE - 1, ALONE, LIGHT, shared.THRESHOLD - 1])
def test_the_only_buffer_of_a_frozen_value_is_shared_early(
    monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """So a wait brings it, as it brings smaller ones in the message."""
    array = np.ones(size, np.uint8)
    one, two = Frozen.of([array], TinyAddress), Frozen.of([array, array.copy()], TinyAddress)
    assert type(one.pickled.buffers[0]) is (bytes if size < ALONE else Segment)
    assert one.light
    together = size in shared.TOGETHER and 2 * size >= shared.THRESHOLD
    kinds = [type(each) for each in two.pickled.buffers]
    assert kinds == ([Segment] if together else [bytes, bytes])
    monkeypatch.setattr(shared, "THRESHOLD", shared.IN_SLOT.stop + 1)
    assert type(Frozen.of(array, TinyAddress).pickled.buffers[0]) is bytes


def test_sizes_are_told_apart() -> None:
    payload = packed(np.zeros(SIZE, np.uint8))
    assert payload.framed == len(payload.data) < 1000
    assert payload.size == payload.framed + SIZE
    assert len(pickle.dumps(payload)) < 1000
    far = packed(np.zeros(SIZE, np.uint8), lambda: False)
    assert [len(each) for each in far.buffers] == [SIZE]
    assert far.size == far.framed == len(far.data) + SIZE
    assert pickle.loads(pickle.dumps(far)) == far


def test_one_object_stays_one() -> None:
    data = os.urandom(SIZE)
    one, other, mutable, again = opened(arrived(packed([data, data, m := bytearray(data), m])))
    assert one is other
    assert mutable is again
    assert len(packed([data, data]).buffers) == 1


def test_what_goes_into_a_frame() -> None:
    """Bytes that never change are not copied."""
    data, array = os.urandom(SIZE), np.arange(10)
    assert packed(data, lambda: False).buffers[0] is data
    assert [type(each) for each in packed([array, read_only(array)]).buffers] == [bytes]
    assert [type(each) for each in packed([np.arange(10)]).buffers] == [bytearray]


def test_a_buffer_with_gaps_cannot_be_pickled() -> None:
    with pytest.raises(SerializationError, match=r"cannot pickle.*non-contiguous buffer"):
        packed(Exporter(memoryview(bytearray(SIZE))[::2]))


# ---- no reader sees another's change


def test_writing_to_what_came_changes_nothing_else() -> None:
    array = np.zeros(SIZE)
    payload = packed(array)
    first, second, at_home = opened(arrived(payload)), opened(arrived(payload)), opened(payload)
    array[:] = 1
    first[:] = 2
    at_home[0] = 3
    assert not second.any()
    assert not opened(arrived(payload)).any()
    assert in_child(lambda: (first.fill(4), first.tolist()[0])[1]) == "4.0"
    assert (first == 2).all()


def test_a_segment_is_sealed() -> None:
    segment = Segment.of(memoryview(bytearray(SIZE)), writable=True)
    assert segment is not None
    for change in (
        lambda fd: os.ftruncate(fd, 0),
        lambda fd: os.write(fd, b"x"),
        lambda fd: mmap.mmap(fd, SIZE),
    ):
        with pytest.raises(PermissionError):
            change(segment._descriptor)


# ---- when a segment is freed


def test_the_sender_lets_go_and_the_receiver_has_it_still() -> None:
    before = descriptors()
    payload = packed(np.full(SIZE, 7, np.uint8))
    assert descriptors() == before + 1
    there = arrived(payload)
    assert descriptors() == before + 2
    del payload
    array = opened(there)
    assert descriptors() == before  # neither has it open: it is only mapped
    assert "memfd:farref" in Path("/proc/self/maps").read_text()
    assert array[-1] == 7
    del array, there
    assert "memfd:farref" not in Path("/proc/self/maps").read_text()


def test_a_forked_child_keeps_no_segment_open() -> None:
    payload = packed(np.zeros(SIZE))
    (segment,) = payload.buffers
    assert isinstance(segment, Segment)
    number = segment._descriptor

    def look() -> None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)
        mine = os.dup(2)  # the same number, maybe
        segment.close()
        os.fstat(mine)

    assert in_child(look) == "None"
    assert opened(arrived(payload)).size == SIZE


@pytest.mark.parametrize("again", [True, False], ids=["numbers used again", "numbers unused"])
@pytest.mark.parametrize("kind", ["frozen", "sent", "early"])
def test_a_forked_child_never_reads_another_file(tmp_path: Path, kind: str, again: bool) -> None:
    """The numbers of its parent's descriptors may be those of other files."""
    payload = packed(np.full(SIZE, 7, np.uint8))
    frozen = Frozen.of(np.full(SIZE, 7, np.uint8), TinyAddress)
    came = arrived(payload)
    if kind == "early":
        came.buffers[0]._take_content()  # type: ignore[union-attr]  # a segment

    def look() -> set[int]:
        for number in range(30 if again else 0):
            file = os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT)
            os.write(file, b"Z" * 2 * SIZE)
        return set((frozen.thaw() if kind == "frozen" else opened(came)).tolist())

    found = in_child(look)
    if kind == "early":  # its memory is inherited
        assert found == "{7}"
    else:
        assert found.startswith("SystemDownError: this process was forked")
    assert look() == {7}
    assert in_child(frozen.thaw).startswith("array" if kind == "frozen" else "SystemDown")


def thawed(payload: Payload) -> Any:
    return Frozen.arrived(payload, ()).thaw()


@pytest.mark.parametrize("early", [False, True], ids=["open", "early"])
@pytest.mark.parametrize("use", [opened, thawed])
def test_an_interrupted_unpickling_begins_anew(use: Callable[[Payload], Any], early: bool) -> None:
    value = [np.full(SIZE, 7, np.uint8), np.full(SIZE, 8, np.uint8), Pressing()]
    frozen = Frozen.of(value, TinyAddress).pickled
    there = arrived(
        packed(value) if use is not thawed else Payload(frozen.data, frozen.buffers, frozen=True)
    )
    segments = [each for each in there.buffers if isinstance(each, Segment)]
    for each in segments if early else ():
        each._take_content()
    pressed.append(None)
    with pytest.raises(KeyboardInterrupt):
        use(there)
    one, other, _ = use(there)
    assert set(one) == {7}
    assert set(other) == {8}
    assert one.flags.writeable == (use is not thawed)
    assert not shared.unread
    if use is not thawed:  # two values must not have the same writable memory
        assert not shared.early
        with pytest.raises(AssertionError, match="unpickled once"):
            use(there)


def made_of(view: memoryview) -> None:
    Segment.of(view, writable=False)


def sent_twice(view: memoryview) -> None:
    """The second is written to the memory of the first."""
    for _ in range(2):
        Segment.of(view, writable=False, passing=True)


def came(view: memoryview, use: Callable[[Segment], object] = Segment.buffer) -> None:
    segment = Segment.of(view, writable=True)
    assert segment is not None
    there = Segment.said(segment.fields())
    there.take()
    use(there)


def came_early(view: memoryview) -> None:
    came(view, Segment._take_content)


@pytest.mark.parametrize("work", [made_of, sent_twice, came, came_early])
def test_an_interrupt_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, work: Callable[[memoryview], None]
) -> None:
    ignored: list[Any] = []  # the kinds of errors in `__del__`
    monkeypatch.setattr(sys, "unraisablehook", lambda each: ignored.append(each.exc_type))
    view = memoryview(bytes(shared.THRESHOLD))
    work(view)
    shared.recycler.empty()
    before, folder = dict(shared._open), descriptors()
    moments = []
    for moment in interrupted_everywhere(lambda: work(view)):
        moments.append(moment)
        assert descriptors() == folder, moment
        assert shared._open == before, moment
        assert not shared._passing
        assert not shared._written
        assert not shared.unread
        assert not shared.early
    assert len(moments) > 20
    assert {*ignored} == {Late}


def test_the_sender_is_killed() -> None:
    """One segment was opened before that."""
    with other_process(lambda: packed(np.full(SIZE, 7, np.uint8))) as (pid, there):
        late: Payload = pickle.loads(pickle.dumps(there))
        there.take()
    array = opened(there)
    assert array[0] == array[-1] == 7
    late.take()
    for _ in range(2):
        with pytest.raises(SenderDiedError, match=rf"^{SIZE} bytes.* process {pid} had"):
            opened(late)


def test_what_has_come_in_its_place_is_not_taken_for_it() -> None:
    """Another file, another segment, or the same at another size, under the same number."""
    other = Segment.of(memoryview(bytes(SIZE)), writable=True)
    assert other is not None
    with open("/dev/zero", "rb") as file:
        for number, name, size in (
            (file.fileno(), other.name, SIZE),
            (other._descriptor, "farref-0123", SIZE),
            (other._descriptor, other.name, 2 * SIZE),
            (other._descriptor, other.name, SIZE - 1),
        ):
            segment = Segment((os.getpid(), number), name, size, writable=True)
            segment.take()
            with pytest.raises(SenderDiedError):
                segment.buffer()
    unsealed = os.memfd_create("farref", os.MFD_ALLOW_SEALING)
    os.write(unsealed, bytes(SIZE) + b"farref-0123")
    segment = Segment((os.getpid(), unsealed), "farref-0123", SIZE, writable=True)
    segment.take()
    os.close(unsealed)
    with pytest.raises(SenderDiedError):
        segment.buffer()


@pytest.mark.parametrize(
    "fields",
    [(-1, 3, "n", 5, True), (1, "3", "n", 5, True), (1, 3, b"n", 5, True), (1, 3, "n", 5, 1)],
)
def test_fields_that_do_not_belong_there(fields: tuple[Any, ...]) -> None:
    with pytest.raises(ProtocolError, match="malformed fields"):
        Segment.said((*fields, 0)).take()


# ---- too little memory, descriptors or mappings


def test_no_memory_is_an_error_before_anything_is_copied(tmp_path: Path) -> None:
    """A buffer that is larger than the machine's memory: an empty sparse file."""
    size = 2 * memory.available()
    with open(tmp_path / "sparse", "w+b") as file:
        file.truncate(size)
        with mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ) as large:
            value = np.frombuffer(large, np.uint8)
            a, ref = TinyEndpoint("A"), TinyEndpoint("A").own()
            with pytest.raises(SharedMemoryFullError, match=rf"{size} bytes.*nothing was sent"):
                a.pack([ref, value], near=near)
            with pytest.raises(MemoryError, match="pass an RRef"):
                Frozen.of(value, TinyAddress)
            del value


def test_few_descriptors_and_small_files() -> None:
    """The soft limit is raised.

    At the hard limit, and if no file may be large, frames do the work.
    """
    code = """
        def in_a_frame():
            payload, frozen = packed(np.ones(SIZE)), Frozen.of(np.ones(SIZE), TinyAddress)
            assert [type(each) for each in payload.buffers] == [bytearray]
            assert opened(payload).sum() == SIZE
            assert not frozen.thaw().flags.writeable and not frozen.shared

        number = resource.RLIMIT_NOFILE
        resource.setrlimit(number, (40, 200))
        payloads = [packed(np.ones(shared.THRESHOLD, np.uint8)) for _ in range(100)]
        assert all(type(each.buffers[0]) is Segment for each in payloads)
        held = [os.dup(0) for _ in range(201 - descriptors())]  # which counts its own
        in_a_frame()
        for each in held:
            os.close(each)
        assert packed(np.ones(SIZE)).framed < 1000
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        shared.recycler.empty()
        in_a_frame()
        shared.BY_TWO = SIZE
        in_a_frame()
    """
    limited(__name__, code)


def test_what_cannot_be_mapped_is_read() -> None:
    """The process has all the mappings that it may have already."""
    code = """
        payload, held = arrived(packed(np.arange(SIZE))), []
        try:
            while True:
                access = mmap.PROT_READ | (mmap.PROT_WRITE if len(held) % 2 else 0)
                held.append(mmap.mmap(-1, 4096, prot=access))
        except OSError:
            array = opened(payload)
        held.clear()
        assert "memfd:farref" not in open("/proc/self/maps").read()
        assert array.flags.writeable and array[-1] == SIZE - 1
    """
    limited(__name__, code)


def test_small_segments_leave_descriptors_for_others() -> None:
    code = """
        limit = 100
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        small, large = np.ones(40_000, "u1"), np.ones(shared.THRESHOLD, "u1")
        all_of = [Frozen.of(small, TinyAddress) for _ in range(limit)]
        sizes = [each.shared for each in all_of]
        assert sizes == [40_000] * (limit // 4) + [0] * (limit * 3 // 4), sizes
        assert Frozen.of(large, TinyAddress).shared == shared.THRESHOLD
        del all_of[:10]
        assert Frozen.of(small, TinyAddress).shared == 40_000
    """
    limited(__name__, code)


def test_large_segments_leave_descriptors_for_others() -> None:
    """Further values are copied. Before that, the soft limit is raised."""
    code = """
        soft, hard = 100, 200
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        value = np.ones(shared.THRESHOLD, "u1")
        all_of = [Frozen.of(value, TinyAddress) for _ in range(hard)]
        are = [each.shared > 0 for each in all_of]
        assert soft < are.count(True) < hard * 3 // 4, are
        assert sorted(are, reverse=True) == are
        for each in all_of[0], all_of[-1]:
            assert each.thaw().sum() == shared.THRESHOLD
            assert not each.thaw().flags.writeable
        held = [os.dup(0) for _ in range(hard // 4)]
        del all_of[:10]
        assert Frozen.of(value, TinyAddress).shared == shared.THRESHOLD
    """
    limited(__name__, code)


NOT_LOADED = {
    "no descriptor": "held = [os.dup(0) for _ in range(len(os.listdir('/proc/self/fd')) - 1, 64)]",
    "no library": "sys.modules['farref.serialization.mapping'] = None",
}


@pytest.mark.parametrize("why", NOT_LOADED)
def test_what_maps_cannot_be_loaded(why: str) -> None:
    """The values are read, and new ones go in the message."""
    code = f"""
        value = np.full(SIZE, 7, np.uint8)
        frozen = Frozen.of(value, TinyAddress)
        payload = Payload(frozen.pickled.data, frozen.pickled.buffers, frozen=True)
        used, there, many = arrived(payload), arrived(payload), arrived(payload)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        assert "farref.serialization.mapping" not in sys.modules
        {NOT_LOADED[why]}
        many.buffers[0]._take_content()
        assert many.buffers[0]._descriptor >= 0
        assert opened(used).sum() == opened(many).sum() == 7 * SIZE
        assert Frozen.arrived(there, ()).thaw().sum() == frozen.thaw().sum() == 7 * SIZE
        shared.BY_TWO = SIZE
        assert opened(packed(value)).sum() == 7 * SIZE
    """
    limited(__name__, code)


def test_a_segment_that_may_not_be_opened_says_so() -> None:
    """It is another user's; a system would not tell such a user that we are near."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    payload = packed(np.zeros(SIZE, np.uint8))
    told_of = pickle.dumps(payload)

    def look() -> None:
        os.setuid(65534)
        there: Payload = pickle.loads(told_of)
        there.take()
        opened(there)

    said = in_child(look)
    assert said.startswith("SerializationError: cannot open")
    assert "THRESHOLD" in said


def a_group() -> Path | None:
    """A control group of ours that limits memory to 256 MB, if we may make one."""
    for root, limit in ((memory._V2.root, memory._V2.limit), (memory._V1.root, memory._V1.limit)):
        group = root / f"farref-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / limit).exists():  # otherwise this is not the place of groups
            (group / limit).write_text(str(256 << 20))
            return group
        group.rmdir()
    return None


def is_removed(group: Path) -> bool:
    """The kernel may keep a group for a moment after its last process has ended."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def test_a_control_group_is_full() -> None:
    """The error comes before the kernel's killer would."""
    group = a_group()
    if group is None:
        pytest.skip("no control group can be made here")
    try:
        code = f"""
            open("{group}/cgroup.procs", "w").write(str(os.getpid()))
            assert memory.available() < 256 << 20
            array = np.ones(140 << 20, np.uint8)
            with pytest.raises(SharedMemoryFullError):
                Frozen.of(array, TinyAddress)
            assert Frozen.of(array[:SIZE], TinyAddress).shared == SIZE
        """
        limited(__name__, code)
    finally:
        eventually(lambda: is_removed(group))
