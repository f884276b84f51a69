"""Links lead somewhere, every page is in the site, and everything public is in its reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import DOCS, ROOT, pages, prose, text_of

NAV = ROOT / "tools" / "site" / "mkdocs.yml"
_LINK = re.compile(r"!?\[(?:[^\]]|\n)*?\]\(([^)\s]+)\)")


def anchors(page: str) -> set[str]:
    """The anchors of the headings of *page*, as the site and code hosts make them."""
    text = re.sub(r"^(`{3,}).*?^\1", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 1
        while slug in found:
            slug, number = f"{slug.rstrip('0123456789_-')}_{number}", number + 1
        found.add(slug)
    return found


def links(page: str) -> list[str]:
    return [link for link in _LINK.findall(prose(page)) if "://" not in link]


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        assert target.exists(), f"{page}: {link} leads nowhere"
        if anchor:
            there = target.resolve().relative_to(ROOT).as_posix()
            assert anchor in anchors(there), f"{page}: {there} has no heading for #{anchor}"


def test_what_pins_a_claim_about_security_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", text_of("SECURITY.md")))
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert len(named) > 15
    assert {name for name in named if f"def {name}(" not in tests} == set()


def test_pages_named_in_code_exist() -> None:
    folders = ("src", "actors", "protocol", "serialization", "examples", "tests", "bench", "tools")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    files += [ROOT / "Makefile", ROOT / "pyproject.toml"]
    named = 0
    for path in files:
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8")):
            named += 1
            assert (ROOT / name).exists(), f"{path.relative_to(ROOT)} names {name}"
    assert named > 10


def test_every_page_is_in_the_site() -> None:
    listed = re.findall(r"[\w/.-]+\.md\b", NAV.read_text(encoding="utf-8").partition("nav:")[2])
    there = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    # These come from the top of the repository: tools/site/hooks.py brings them in.
    pages_of_site = {*there, "changelog.md", "contributing.md", "security.md"}
    assert set(listed) == pages_of_site, f"each page is one line of the nav in {NAV}"
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("page", [page for page in pages() if Path(page).parts[0] == "docs"])
def test_a_page_has_one_title(page: str) -> None:
    text = re.sub(r"^(`{3,}).*?^\1", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
