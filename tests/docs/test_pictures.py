"""The pictures in docs/ are those that the trace tests draw."""

from __future__ import annotations

import pytest

from .drawing import SHOWN, picture, with_pictures
from .pages import ROOT, pages, text_of

SHOWING = [page for page in pages() if SHOWN.search(text_of(page))]


@pytest.mark.parametrize("page", SHOWING)
def test_the_pictures_are_up_to_date(page: str, *, rewrite: bool) -> None:
    made = with_pictures(text_of(page), lambda name: f"```text\n{picture(name)}```\n")
    if rewrite:
        (ROOT / page).write_text(made, encoding="utf-8")
    assert text_of(page) == made, "pytest tests/docs/test_pictures.py --rewrite draws them anew"


def test_there_are_some() -> None:
    text = "".join(map(text_of, SHOWING))
    assert len(SHOWN.findall(text)) == text.count("<!-- trace: ") >= 8
