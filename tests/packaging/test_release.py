"""The refusals of `make release-check`, each on a small repository with that one mistake."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "release_check.py"
URL = '[project.urls]\nSource = "https://git.example.org/a"\n'
CHANGES = (
    "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2030-01-02\n\n- a\n\n## [1.1.0] - 2029-01-02\n"
)


def tool() -> Any:
    spec = importlib.util.spec_from_file_location("release_check", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "a"\nversion = "1.2.0"\n{URL}')
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "all")
    return tmp_path


def wrong(root: Path) -> list[str]:
    checks = tool()
    return [
        each for check in (checks.tree, checks.changelog, checks.addresses) for each in check(root)
    ]


def test_nothing_is_wrong(root: Path) -> None:
    assert wrong(root) == []


def test_a_tree_with_changes(root: Path) -> None:
    (root / "new.py").write_text("")
    (problem,) = wrong(root)
    assert "not committed" in problem


def test_a_tag_that_is_taken(root: Path) -> None:
    git(root, "tag", "v1.2.0")
    assert wrong(root) == []  # the tag of this very commit
    git(root, "commit", "-q", "--allow-empty", "-m", "more")
    (problem,) = wrong(root)
    assert problem == "the tag v1.2.0 is there already: raise the version in pyproject.toml"


def test_a_tag_of_another_version(root: Path) -> None:
    git(root, "tag", "v1.3.0")
    (problem,) = wrong(root)
    assert problem.startswith("this commit has the tag v1.3.0, but its version in pyproject.toml")


HEADING = "## [1.2.0] - 2030-01-02"


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        ("CHANGELOG.md", HEADING, "## [1.3.0] - 2030-01-02", "is 1.3.0; pyproject.toml has 1.2.0"),
        ("CHANGELOG.md", HEADING, "## [1.2.0]", "has no date"),
        (
            *("CHANGELOG.md", "## [Unreleased]\n", "## [Unreleased]\n\n- more\n"),
            "below [Unreleased]",
        ),
        (
            *("pyproject.toml", "git.example.org", "farref.invalid"),
            "[project.urls] Source is a placeholder, https://farref.invalid/a",
        ),
    ],
)
def test_a_line_that_is_wrong(root: Path, file: str, before: str, after: str, said: str) -> None:
    text = (root / file).read_text()
    (root / file).write_text(text.replace(before, after))
    git(root, "commit", "-q", "-a", "-m", "more")
    (problem,) = wrong(root)
    assert said in problem


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    assert list(tool().built(ROOT, folder)) == []
    return folder


def test_this_trees_wheel_and_sdist_agree(folder: Path) -> None:
    assert len([*folder.glob("farref-*.whl"), *folder.glob("farref-*.tar.gz")]) == 2


def test_an_index_can_show_this_trees_wheel_and_sdist(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("twine", reason="no twine here: the extra `full` brings it")
    assert list(tool().described(ROOT, folder)) == []
    (sdist,) = folder.glob("*.tar.gz")
    (tmp_path / sdist.name).write_bytes(sdist.read_bytes()[:1000])
    (problem,) = tool().described(ROOT, tmp_path)
    assert problem.startswith("`twine check --strict`: ")


def test_the_workflow_publishes_what_was_built_and_tested() -> None:
    yaml = pytest.importorskip("yaml", reason="no yaml here: the extra `full` brings it")
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as a truth value
    build, test, publish = (workflow["jobs"][name] for name in ("build", "test", "publish"))
    assert publish["needs"] == ["build", "test"]
    # Only the job that runs nothing of this tree may publish, and it needs no secret.
    assert workflow["permissions"] == {"contents": "read"}
    assert publish["permissions"] == {"id-token": "write"}
    assert [step.get("run") for step in publish["steps"]] == [None, None]
    assert "permissions" not in build | test
    assert "secrets" not in str(workflow)
    assert "http" not in str(workflow)  # the addresses are the actions' own
    classifiers = tool().project(ROOT)["classifiers"]
    tested = [
        f"Programming Language :: Python :: {each}" for each in test["strategy"]["matrix"]["python"]
    ]
    assert tested == [each for each in classifiers if ":: Python :: 3." in each]
    makefile = (ROOT / "Makefile").read_text()
    for step in (*build["steps"], *test["steps"]):
        if "run" in step:
            target = step["run"].partition(" #")[0].split()[-1]
            assert f"\n{target}: " in makefile


def test_it_is_a_command_that_says_what_it_does() -> None:
    run = subprocess.run(
        [sys.executable, TOOL, "--help"], check=True, capture_output=True, text=True, timeout=60
    )
    assert "Uploads nothing" in run.stdout
