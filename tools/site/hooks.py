"""Additions to mkdocs that build the site: see `mkdocs.yml`.

- The pictures of traces get their colours. They are drawn again from the stories in tests/traces.
- The stubs of the reference, which are for readers of a checkout, give way to whole docstrings.
- The changelog, CONTRIBUTING and SECURITY, at the top of the repository, become pages.
- A link to a file that is not a page, such as an example, becomes the file's name.
- Each version has a folder of its own, with the version in its header. ``versions.json`` beside
  them lists those that are there, and ``index.html`` leads to the newest.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent
BROUGHT = {
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
"""Pages of the site, and their files at the top of the repository."""

sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # pictures are drawn by the tests' own code
from tests.docs.drawing import colours, with_pictures  # noqa: E402 - the path is set above
from tests.docs.stubs import without_stubs  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def on_config(config: MkDocsConfig) -> None:
    """Name the version."""
    config.site_name = f"{PROJECT['name']} {PROJECT['version']}"
    config.site_description = PROJECT["description"]


def on_post_build(config: MkDocsConfig) -> None:
    """List the versions, newest first, if this one was built into the folder of its name."""
    folder = Path(config.site_dir)
    if folder.name == PROJECT["version"]:
        there = [each.parent.name for each in folder.parent.glob("*/index.html")]
        there.sort(key=lambda name: [int(part) for part in re.findall(r"\d+", name)], reverse=True)
        versions = [{"version": each, "title": each, "aliases": []} for each in there]
        (folder.parent / "versions.json").write_text(json.dumps(versions), encoding="utf-8")
        leads = f'<meta http-equiv="refresh" content="0; url={there[0]}/index.html">\n'
        (folder.parent / "index.html").write_text(leads, encoding="utf-8")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from elsewhere."""
    for uri, name in BROUGHT.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Draw the pictures, and remove links to files that the site lacks."""
    here = Path(page.file.src_uri).parent

    def unlinked(match: re.Match[str]) -> str:
        target = match[2].partition("#")[0]
        there = (ROOT / "docs" / here / target).resolve()
        for uri, name in BROUGHT.items():
            if there == ROOT / name:
                return f"[{match[1]}]({'../' * len(here.parts)}{uri})"
        outside = there.exists() and ROOT / "docs" not in there.parents
        return match[1] if outside else match[0]

    drawn = with_pictures(
        without_stubs(markdown),
        lambda name: f'<pre class="trace"><code>{colours(name)}</code></pre>\n',
    )
    return re.sub(r"(?<!!)\[([^\]]+)\]\((\.\./[^)\s]+)\)", unlinked, drawn)


def on_page_content(html: str, **_: object) -> str:
    """Docstrings announce an example by two colons, as in reStructuredText; a page by one."""
    return html.replace("<p>::</p>", "").replace("::</p>", ":</p>")
