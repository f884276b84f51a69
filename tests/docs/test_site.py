"""The site builds without a warning, loads nothing from elsewhere, and has every public name."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

from .drawing import SHOWN
from .pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long

VERSION: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
BUILDERS = ("mkdocs", "material", "mkdocstrings")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    missing = [name for name in BUILDERS if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: the extra `docs` brings it")
    folder = tmp_path_factory.mktemp("site") / VERSION
    older = folder.parent / "0.0.9" / "index.html"
    older.parent.mkdir()
    older.touch()
    config = ROOT / "tools" / "site" / "mkdocs.yml"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", config, "-d", folder],
        capture_output=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:link|script|img|iframe|source)\b[^>]*>", html):
            assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", tag), f"{page.name}: {tag}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text()), style


@pytest.mark.parametrize(
    ("module", "page"),
    [
        ("farref", ""),
        ("farref.testing", "testing"),
        ("farref.elastic", "rendezvous"),
        ("farref.actors.base", "base"),
    ],
)
def test_everything_public_is_in_the_reference(site: Path, module: str, page: str) -> None:
    pages = sorted((site / "reference").glob(f"{page or '*'}.html"))
    html = "".join(path.read_text(encoding="utf-8") for path in pages)
    headings = set(re.findall(r'<h\d id="farref\.(?:[\w.]+\.)?(\w+)"', html))
    missing = set(importlib.import_module(module).__all__) - headings
    assert not missing, "docs/reference/ lacks them"


def test_a_version_is_in_the_header_and_in_the_list(site: Path) -> None:
    html = (site / "index.html").read_text(encoding="utf-8")
    assert re.search(rf'<span class="md-ellipsis">\s*farref {re.escape(VERSION)}\s*</span>', html)
    assert '"provider": "mike"' in html  # the menu, which reads the list
    listed = json.loads((site.parent / "versions.json").read_text())
    assert [each["version"] for each in listed] == [VERSION, "0.0.9"]
    assert f"url={VERSION}/" in (site.parent / "index.html").read_text()


def test_the_reference_has_whole_docstrings_and_no_stubs(site: Path) -> None:
    html = (site / "reference" / "calls.html").read_text(encoding="utf-8")
    assert "language-pyi" not in html
    assert "If several references lead to one object" in html


def test_the_pictures_have_colours(site: Path) -> None:
    text = (ROOT / "docs" / "protocol-by-example.md").read_text(encoding="utf-8")
    html = (site / "protocol-by-example.html").read_text(encoding="utf-8")
    assert html.count('<pre class="trace">') == len(SHOWN.findall(text)) > 0
    assert '<span style="color: #' in html


def test_links_that_leave_the_site_are_names(site: Path) -> None:
    for page in site.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        for link in re.findall(r'<a\b[^>]*href="([^"#:]+)[^":]*"', html):
            if page.name == "404.html":  # its links begin at the server's root
                link = link.removeprefix("/")  # noqa: PLW2901 - the same, from the root
            assert (page.parent / link).resolve().exists(), f"{page.name}: {link}"
