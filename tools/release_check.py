"""Whether this tree can be released as it is: `make release-check`. Uploads nothing.

Every check is made, and each names its problems and their remedies. If there are none, dist/ has
the wheel and the sdist that were checked. CONTRIBUTING.md has the whole recipe.
"""

# ruff: noqa: T201, S603, S607 (a command line tool that runs git, pip and installed programs)

from __future__ import annotations

import argparse
import email.parser
import email.policy
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent
PLACEHOLDER = ".invalid"
"""The top-level domain that no host can have (RFC 2606): the address is still to be filled in."""
DEMO = ("demo", "user-to-user")
HEADING = re.compile(r"^## \[(?P<version>[^]]+)\](?: - (?P<date>\S+))?$", re.MULTILINE)


def project(root: Path) -> dict[str, Any]:
    """The table ``[project]`` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return table


def tree(root: Path) -> Iterator[str]:
    """Every change is committed, and the tag is free, or this commit's."""
    if _git(root, "status", "--porcelain"):
        yield "the tree has changes that are not committed: commit them"
    tag = f"v{project(root)['version']}"
    here = _git(root, "tag", "--list", "v*", "--points-at", "HEAD").split()
    if tag not in here and _git(root, "tag", "--list", tag):
        yield f"the tag {tag} is there already: raise the version in pyproject.toml"
    for other in here:
        if other != tag:
            yield f"this commit has the tag {other}, but its version in pyproject.toml makes {tag}"


def changelog(root: Path) -> Iterator[str]:
    """The newest heading is the version with a date, and nothing stands above it."""
    text, version = (root / "CHANGELOG.md").read_text(), project(root)["version"]
    headings = list(HEADING.finditer(text))
    released = [each for each in headings if each["version"] != "Unreleased"]
    if not released or released[0]["version"] != version:
        newest = released[0]["version"] if released else "none"
        yield f"the newest version in CHANGELOG.md is {newest}; pyproject.toml has {version}"
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", released[0]["date"] or ""):
        yield f"the heading of {version} in CHANGELOG.md has no date: `## [{version}] - YYYY-MM-DD`"
    if headings and headings[0]["version"] == "Unreleased":
        end = headings[1].start() if len(headings) > 1 else len(text)
        if text[headings[0].end() : end].strip():
            yield "CHANGELOG.md has lines below [Unreleased]: they belong to the version"


def addresses(root: Path) -> Iterator[str]:
    """The addresses of the project are real ones."""
    for name, address in project(root).get("urls", {}).items():
        host = address.split("/")[2]
        if host.endswith(PLACEHOLDER):
            yield f"[project.urls] {name} is a placeholder, {address}: fill in where that is"


def built(root: Path, folder: Path) -> Iterator[str]:
    """Wheel and sdist can be built, agree, and have metadata that an index shows."""
    for source, target, into in ((root, "sdist", folder), (root, "wheel", folder)):
        _hatchling(source, target, into)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.3 has none
        archive.extractall(folder / "unpacked")  # noqa: S202 (this tree's own)
    (unpacked,) = (folder / "unpacked").iterdir()
    _hatchling(unpacked, "wheel", folder / "again")
    (again,) = (folder / "again").glob("*.whl")
    names, others = set(ZipFile(wheel).namelist()), set(ZipFile(again).namelist())
    if names != others:
        yield f"the sdist makes another wheel than the tree: {', '.join(sorted(names ^ others))}"
    (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    parser = email.parser.BytesParser(policy=email.policy.compat32)
    told = parser.parsebytes(ZipFile(wheel).read(metadata))
    for field in ("Name", "Version", "Summary", "Requires-Python", "License-Expression"):
        if not told[field]:
            yield f"the wheel's metadata has no {field}: see [project] in pyproject.toml"


def described(_: Path, folder: Path) -> Iterator[str]:
    """An index can show both."""
    files = map(str, (*folder.glob("*.whl"), *folder.glob("*.tar.gz")))
    command = [sys.executable, "-P", "-m", "twine", "--no-color", "check", "--strict", *files]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        yield f"`twine check --strict`: {(run.stdout + run.stderr).strip()}"


def works(root: Path, folder: Path) -> Iterator[str]:
    """The wheel installs into a fresh environment, says its version, and plays a demo there."""
    (wheel,) = folder.glob("*.whl")
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip: list[str | Path] = [venv / "bin" / "python", "-m", "pip", "install", "--quiet", wheel]
    if subprocess.run(pip, check=False).returncode:
        yield "the wheel cannot be installed"
        return
    command = venv / "bin" / "farref"
    for arguments, expected in (("--version",), f"farref {project(root)['version']}"), (DEMO, ""):
        run = subprocess.run(
            [command, *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        if run.returncode or expected not in run.stdout:
            said = (run.stdout + run.stderr).strip()
            yield f"`farref {' '.join(arguments)}` of the wheel: exit code {run.returncode}, {said}"


def _git(root: Path, *arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return run.stdout.strip()


def _hatchling(source: Path, target: str, folder: Path) -> None:
    # -P: `python -m` would put the folder, and so `actors` etc., on the path.
    command = [sys.executable, "-P", "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)


def main() -> int:
    """Make all checks; 1 if one fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checks: dict[Callable[..., Iterator[str]], tuple[Path, ...]] = {
            tree: (ROOT,),
            changelog: (ROOT,),
            addresses: (ROOT,),
            built: (ROOT, folder),
            described: (ROOT, folder),
            works: (ROOT, folder),
        }
        for check, arguments in checks.items():
            problems = list(check(*arguments))
            wrong += len(problems)
            print(f"{'no' if problems else 'ok'}  {(check.__doc__ or '').strip()}")
            for problem in problems:
                print(f"      {problem}")
        if not wrong:
            (ROOT / "dist").mkdir(exist_ok=True)
            for made in (*folder.glob("*.whl"), *folder.glob("*.tar.gz")):
                shutil.copy(made, ROOT / "dist")
    print(f"not to be released: {wrong} to mend" if wrong else "ready: tag it, and upload dist/")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
