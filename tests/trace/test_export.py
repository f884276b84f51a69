"""Traces in other forms, each checked as such: events, a page, a test."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import farref
from farref import System
from farref.testing import Faults, drop
from farref.trace import Only, Story, TraceError, read, tell
from farref.trace.export.page import page
from farref.trace.export.perfetto import perfetto
from farref.trace.export.tracetest import trace_test
from farref.trace.story import Arrow
from farref.tracetest.files import differences

from .recordings import Tape, user_to_user

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


# ---- a part of it


def test_a_reference_and_an_endpoint_choose_what_is_told() -> None:
    whole = tell(user_to_user())
    mine = tell(user_to_user(), only=Only(workers=("C",)))
    assert 0 < len(mine.rows) < len(whole.rows)
    assert all("C@3" in row.ends for row in mine.rows)
    tape = Tape()
    for number in (1, 2):
        tape.pass_on("A@1", "B@2", "Create", rref=f"A@1/{number}", fork=f"A@1/{number}", label="f")
        tape.pass_on("A@1", "B@2", "Delete", rref=f"A@1/{number}", forks=[f"A@1/{number}"])
    one = tell(tape.recording(), only=Only(refs=("A/2",)))
    assert [row.about for row in one.rows] == [frozenset({"A@1/2"})] * 2
    assert set(one.objects) == {"A@1/2"}
    assert one.summary.objects == 1
    assert one.summary.control == {"Delete": 1}
    with pytest.raises(TraceError, match=r"no reference A/9 in this trace; there are A/1, A/2"):
        tell(tape.recording(), only=Only(refs=("A/9",)))
    with pytest.raises(TraceError, match=r"no endpoint Z in this trace; there are A, B"):
        tell(tape.recording(), only=Only(workers=("Z",)))


# ---- every form


@pytest.mark.parametrize("export", [page, perfetto])
def test_exports_name_the_owner_of_an_object_that_another_created(
    export: Callable[..., str],
) -> None:
    text = export(tell(user_to_user()))
    assert "call func(A/1 at B)" in text
    assert "call func(A/1)" not in text


def test_a_page_says_how_long_a_table_is_that_it_does_not_show() -> None:
    tape = Tape()
    tape.note("A@1", "join", sharing="lend")
    for number in range(400):
        tape.note("A@1", "do", do="own", serial=number % 2)
    tape.note("A@1", "do", do="drop", rref="A@1/1")
    tape.note("A@1", "free", rref="A@1/1")
    for _ in range(4_000):
        tape.note("A@1", "run", peer="A@1", label="f")
    says = "lines; a page of fewer steps shows them: --ref, --worker)"
    assert says in page(tell(tape.recording()))
    assert says not in page(tell(tape.recording(), only=Only(refs=("A/1",))))


@pytest.mark.parametrize("export", [page, perfetto, trace_test])
def test_an_export_says_how_far_it_is(export: Callable[..., str], recorded: Story) -> None:
    said: list[tuple[int, int]] = []
    export(recorded, lambda done, whole: said.append((done, whole)))
    assert len(said) >= len(recorded.rows)
    assert [done for done, _ in said] == sorted(done for done, _ in said)
    assert all(done < whole for done, whole in said)


# ---- Perfetto


def test_chrome_trace_events_are_well_formed_and_causal() -> None:
    story = tell(user_to_user())
    events = json.loads(perfetto(story))["traceEvents"]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert list(threads.values()) == ["A", "B", "C"]
    last: dict[int, float] = {}
    for event in events:
        assert {"ph", "pid", "tid", "name"} <= set(event)
        assert event["ph"] in "XMsf"
        if event["ph"] == "X":
            assert event["ts"] >= last.get(event["tid"], 0.0)
            last[event["tid"]] = event["ts"] + event["dur"]
    begins = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    sent = [row for row in story.rows if isinstance(row, Arrow) and row.part.value != "arrives"]
    assert set(begins) == set(ends)
    assert len(begins) == len(sent)
    slices = {(event["tid"], event["ts"]) for event in events if event["ph"] == "X"}
    for number, begin in begins.items():
        end = ends[number]
        assert begin["ts"] < end["ts"]
        assert end["bp"] == "e"
        assert {(each["tid"], each["ts"]) for each in (begin, end)} <= slices


# ---- the page, in a real browser


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A real run: an object of B, lent to C, and C fetches it."""
    folder = tmp_path_factory.mktemp("run")
    with System(trace=folder) as system:
        system.worker("B"), system.worker("C")
        ref = farref.remote("B", str, args=("</script><b>",))
        assert farref.rpc_sync("C", fetched, args=(ref,)) == "</script><b>"
        del ref
    return read(folder, "A run, <b>recorded</b> & shown.")


def fetched(ref: Any) -> str:
    text: str = ref.to_here()
    return text


def seen(html: str, tmp_path: Path, script: str) -> Iterator[Any]:
    """The entries that *script*, run in the page in a browser, puts into the list `out`."""
    told = f'<script>const out=[];{script};document.body.innerHTML="<pre id=out></pre>";'
    told += 'document.getElementById("out").textContent=JSON.stringify(out);</script>'
    file = tmp_path / "page.html"
    file.write_text(html.replace("</body>", f"{told}</body>"), encoding="utf-8")
    command = [
        *(BROWSER or "", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--window-size=1200,700", f"--user-data-dir={tmp_path / 'profile'}"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", file.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stdout[-2000:] + done.stderr[-2000:]
    text = found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    yield from json.loads(text)


@pytest.mark.processes
@pytest.mark.skipif(BROWSER is None, reason="no Chromium here (Debian's package: chromium)")
def test_the_page_draws_steps_and_filters_in_a_browser(recorded: Story, tmp_path: Path) -> None:
    html = page(recorded)
    assert not re.search(r"""(src|href)\s*=|@import|url\(""", html.partition("const trace")[0])
    step = 'out.push(document.getElementById("step").textContent);'
    tables = 'out.push(document.getElementById("tables").textContent);'
    gone = 'document.querySelectorAll("#tables .gone").length'
    key = 'document.dispatchEvent(new KeyboardEvent("keydown",{key:"%s",bubbles:true}));'
    script = (
        'out.push(document.querySelector("h1").textContent);'
        'out.push(document.querySelectorAll(".row").length);'
        'out.push([...document.querySelectorAll("#heads span")].map(e=>e.textContent).join());'
        + (key % "End") + step + tables
        + (key % "p") + step + (key % "n") + tables
        + (key % "Home") + tables + (key % "End") + tables
        + 'const f=document.getElementById("filter");f.value="B delete";'
        'f.dispatchEvent(new Event("input"));'
        'out.push(document.getElementById("count").textContent);'
        'out.push(document.querySelectorAll(".row").length);' + step
        + 'const pen=document.createElement("canvas").getContext("2d"),s=getComputedStyle(f);'
        'pen.font=s.font;const room=f.clientWidth-parseFloat(s.paddingLeft)-'
        'parseFloat(s.paddingRight);out.push(pen.measureText(f.placeholder).width<=room);'
        'f.value="";f.dispatchEvent(new Event("input"));'
        + (key % "Home") + f"let gone={gone};trace.rows.forEach(()=>{{"
        + (key % "n") + f"gone+={gone}}});out.push(gone);"
        + 'out.push(trace.tables.flat().reduce((n,[,went])=>n+went.length,0));'
        + 'location.hash="#2";window.onhashchange();' + step
        + 'const area=document.getElementById("lanes");'
        'out.push([area,...document.querySelectorAll("#heads span")].every('
        "e=>e.scrollWidth<=e.clientWidth));"
    )  # fmt: skip
    out = list(seen(html, tmp_path, script))
    rows = len(recorded.rows)
    assert out[:3] == ["A run, <b>recorded</b> & shown.", rows, "program,B,C,owner's view"]
    assert str(out[3]).startswith(f"step {rows} of {rows}. ")
    last = out[4]
    assert "B (nothing)" in last
    assert str(out[5]).startswith(f"step {rows - 1} of {rows}. ")
    assert out[6] == last, "a step back and forth"
    assert out[7] != last
    assert out[8] == last, "from the first step to the last one"
    deletes = sum(isinstance(row, Arrow) and row.kind == "Delete" for row in recorded.rows)
    assert deletes
    assert out[9] == f"{deletes} of {rows} steps"
    assert out[10] == deletes
    assert "delete" in str(out[11])
    assert out[12], "what the filter takes is written in it, whole"
    assert out[13] == out[14] > 0, "each line that a step removes from the tables is shown there"
    assert str(out[15]).startswith(f"step 2 of {rows}. ")
    assert out[16], "the owner's view is whole beside the lanes"


# ---- an incident becomes a test


KEPT: list[Any] = []


def keep(ref: Any) -> None:
    KEPT.append(ref)


@pytest.mark.processes
def test_a_lost_message_is_lost_in_the_test_too(tmp_path: Path) -> None:
    """C keeps a reference, and each of its own fork requests to B is lost on the way."""
    lossy = Faults(drop(kinds="ForkRequest", sender="C", receiver="B"))
    with System(trace=tmp_path, sharing="fork", faults=lossy) as system:
        system.worker("B"), system.worker("C")
        ref = farref.remote("B", str)
        farref.rpc_sync("C", keep, args=(ref,))
        number = ref.id.number
        del ref
    story = read(tmp_path)
    assert any("a fork request from C to B did not arrive" in line for line in story.summary.left)
    test = tmp_path / "incident.txt"
    test.write_text(trace_test(story), encoding="utf-8")
    assert differences(test) == ""
    end = test.read_text(encoding="utf-8").rpartition("\ninflight\n")[2]
    assert f"C -> B  ForkRequest(rref=program/{number}, fork=program/" in end
    assert f"program uses program/{number} of B:" in end, "pinned: its child is not confirmed"


@pytest.mark.parametrize(
    ("sharing", "says"),
    [("theft", "'theft' is not a way of sharing"), ("lend", "a replay does not send Tell")],
)
def test_what_the_machines_would_not_do_is_no_test(sharing: str, says: str) -> None:
    tape = Tape()
    for each in ("A@1", "B@2"):
        tape.note(each, "join", sharing=sharing)
    tape.note("A@1", "do", do="own")
    tape.pass_on("A@1", "B@2", "Tell", label="Look")  # no input made A send it
    with pytest.raises(TraceError, match=says):
        trace_test(tell(tape.recording()))
