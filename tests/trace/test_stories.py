"""The stories in ``tests/traces``, and the clear errors of their language."""

from __future__ import annotations

from pathlib import Path

import pytest

from farref.tracetest.files import TraceTestError, differences, play
from farref.tracetest.files import rewrite as rewrite_file
from farref.tracetest.language import COMMANDS
from farref.tracetest.show import listed, summarize

HERE = Path(__file__).parents[1]
TRACES = HERE / "traces"


def traces() -> list[str]:
    names = sorted(str(path.relative_to(TRACES)) for path in TRACES.rglob("*.txt"))
    assert names
    return names


@pytest.mark.parametrize("name", traces())
def test_trace(name: str, *, rewrite: bool) -> None:
    path = TRACES / name
    if rewrite:
        rewrite_file(path)
    if difference := differences(path):
        pytest.fail(difference, pytrace=False)


def trace(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "story.txt"
    path.write_text("\n".join(["# A story.", "", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["own A", "----"], "story.txt:3: own A: there is no endpoint 'A'"),
        (
            ["endpoints A", "own A", "jump A", "----"],
            "story.txt:5: jump A: 'jump' is not a command",
        ),
        (["endpoints A", "own A two three", "----"], "story.txt:4: own A two three: "),
        (["endpoints A", "drop A A/9", "----"], "no shell may do this: A uses A/9"),
        (["endpoints A", "tell A", "----"], "an endpoint is missing"),
        (["endpoints A B", "tell A B 7", "----"], "'7' is not an id such as A/1"),
        (["endpoints A B", "deliver A->B", "----"], "no such message is in flight; there are:\n"),
        (["endpoints A", "own A", "expect nothing left", "----"], "left:\n    A owns A/1: "),
        (["endpoints A", "tick 1", "----"], "there are no channels here"),
        (["endpoints A B", "forge A->B Ack rref=A/1", "----"], "Missing required argument 'fork'"),
        (["endpoints A", "reply A A/1", "----"], "A does not run call A/1; it runs nothing"),
        (["sharing mine", "----"], "'mine' is not one of lend, fork, borrow"),
        (["endpoints A B", "own A", "pickle A B A/1 for fun", "----"], "'fun' is neither call nor"),
        (["endpoints A B", "died B unacknowledged Reply", "----"], "B received no such message"),
        (
            ["endpoints A B", 'forge A->B Tell carries=[["A/1","A/1","A","lent"]]', "----"],
            "'lent' is not a valid Passing",
        ),
        (
            ["endpoints A B", 'forge A->B Returned loans=[{"rref":"A/1","fork":"A/1"}]', "----"],
            "Missing required argument 'owner'",
        ),
        (["endpoints A B", "forge A->B Ack fork=A/1 rref", "----"], "'rref' is not of the form"),
        (["endpoints A B", "forge A->B Ack fork=A/1 ref=A/1", "----"], "unknown fields: ref"),
        (["endpoints A B", "forge A->B Akc fork=A/1", "----"], "'Akc' is not one of "),
        (["endpoints A"], "story.txt:3: this block has no line '----'"),
        (["----"], "story.txt:3: '----' without a command before it"),
    ],
)
def test_a_bad_command_is_named_with_its_line(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    with pytest.raises(TraceTestError) as caught:
        play(trace(tmp_path, *lines))
    assert message in str(caught.value)


def test_a_changed_output_is_shown_and_rewritten(tmp_path: Path) -> None:
    path = trace(tmp_path, "# Prose.", "", "endpoints A", "own A", "----", "A owns A/2")
    assert "story.txt:5" in differences(path)
    assert "A owns A/2" in differences(path)
    rewrite_file(path)
    assert not differences(path)
    expected = "# A story.\n\n# Prose.\n\nendpoints A\nown A\n----\nA owns A/1\n"
    assert path.read_text(encoding="utf-8") == expected


def test_runs_of_equal_lines_are_summarized() -> None:
    assert summarize([f"B frees A/{n}" for n in range(1, 1001)]) == [
        "B frees A/1..A/1000  (1,000 times)"
    ]
    too_few = ["up A/1", "down A/5", "up A/2", "up A/3", "up A/4"]
    assert summarize(too_few) == too_few
    assert summarize(["the same"] * 4) == ["the same  (4 times)"]
    pairs = [line for n in range(4) for line in (f"up A/{n}", f"down B/{n + 7}")]
    assert summarize(pairs) == ["up A/0..A/3  (4 times)", "down B/7..B/10  (4 times)"]
    assert listed(["A/1", "A/2", "A/4", "A/5"]) == "A/1, A/2, A/4, A/5"
    assert listed(["A/1", "A/2", "A/3", "A/4"]) == "A/1..A/4"
    assert listed(["A/1"] * 4) == "A/1 (4 times)"


def test_the_documentation_has_every_command() -> None:
    text = (HERE.parent / "docs" / "trace-tests.md").read_text(encoding="utf-8")
    for name, command in COMMANDS.items():
        form = (command.__doc__ or "").partition(" - ")[0]
        assert f"`{form}`" in text, f"docs/trace-tests.md has no `{form}` ({name})"
