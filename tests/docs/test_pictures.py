"""What is made in docs/ is up to date: pictures of trace tests, stubs of the source, figures."""

from __future__ import annotations

import pytest

from . import drawing, stubs
from .pages import ROOT, pages, text_of
from bench import page as figures

SHOWING = [
    page
    for page in pages()
    if drawing.SHOWN.search(text_of(page)) or stubs.SHOWN.search(text_of(page))
]


@pytest.mark.parametrize("page", SHOWING)
def test_what_is_made_is_up_to_date(page: str, *, rewrite: bool) -> None:
    drawn = drawing.with_pictures(
        text_of(page), lambda name: f"```text\n{drawing.picture(name)}```\n"
    )
    made = stubs.with_stubs(drawn)
    if rewrite:
        (ROOT / page).write_text(made, encoding="utf-8")
    assert text_of(page) == made, "pytest tests/docs/test_pictures.py --rewrite makes them anew"


def test_there_are_some() -> None:
    text = "".join(map(text_of, SHOWING))
    assert len(drawing.SHOWN.findall(text)) == text.count("<!-- trace: ") >= 8
    assert len(stubs.SHOWN.findall(text)) == text.count("\n::: ") == text.count("```pyi\n") >= 50


def test_the_page_has_the_figures_that_were_measured() -> None:
    text = figures.PAGE.read_text(encoding="utf-8")
    assert figures.written(text) == text, "run `python -m bench.page`"
    with pytest.raises(SystemExit, match="has no block"):
        figures.written("nothing")
