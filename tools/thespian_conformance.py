#!/usr/bin/env python3
"""Run Thespian's own functional tests against our system base.

The tests come with Thespian's source distribution and run unchanged. In a temporary copy of the
distribution, the module ``thespian/system/multiprocTCPBase.py`` is replaced by one that makes our
base, so every test parametrised for ``multiprocTCPBase`` runs on ours. On request, stock bases run
beside it from an unmodified copy.

    python tools/thespian_conformance.py                     # our base, Unix sockets
    python tools/thespian_conformance.py --bases ours ours-tcp multiprocTCPBase
    python tools/thespian_conformance.py --files test_wakeup.py --sdist thespian-4.0.1.tar.gz

Exit code 0: every file ran, and everything passed on our base, except the tests that
:data:`NOT_APPLICABLE` lists with a reason. Failures of stock bases are only reported.
"""

# ruff: noqa: T201, S603 (a command line tool that runs pip and pytest)

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Final

VERSION: Final = "4.0.1"
PATIENCE: Final = 240.0
"""Seconds for the tests of a file."""

SHIM: Final = '''
"""Put in place of the stock TCP base by tools/thespian_conformance.py."""
import os
from farref.actors.base import rundir, tls
from farref.actors.base.settings import SystemSettings
from farref.actors.base.system import CAPABILITIES, FarrefBase, shared_key

class ActorSystemBase(FarrefBase):
    def __init__(self, system, logDefs=None):
        host = os.environ["CONFORMANCE_HOST"]
        port = int(system.capabilities.get("Admin Port", 1900))
        directory = rundir.private_directory()
        rundir.log_for_thespian(directory)
        settings = SystemSettings(
            name=f"p{port}", directory=directory, system_id=os.urandom(4).hex(), spin=50e-6,
            host=host, port=port, listen=(host, port), key=shared_key(None, host),
            encryption=tls.make() if host else None)
        for name, value in CAPABILITIES.items():
            system.capabilities.setdefault(name, value)
        super().__init__(settings, system.capabilities, logDefs, "either", 10.0)
'''

# Our bases, each with its address ("": Unix sockets only); other names are stock bases.
OURS: Final = {"ours": "", "ours-tcp": "127.0.0.1"}

# Tests of stock bases only, by a part of their identifier.
OTHER_BASES: Final = (
    *("simpleSystemBase", "multiprocQueueBase"),
    *("multiprocUDPBase", "multiprocTCPBase"),
)

NOT_APPLICABLE: Final[dict[str, str]] = {
    "-AdminRouting": (
        "Admin Routing and Outbound Only are features of the stock TCP transport (tunnelling"
        " through admins behind NAT); our base has no such mode, and a VPN does the job"
    ),
}


@dataclass(slots=True)
class Outcome:
    """The result of one file's tests on one base."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="conformance-") as scratch:
        archive = arguments.sdist or _download(Path(scratch))
        results: dict[str, dict[str, Outcome]] = {}
        for base in arguments.bases:
            tree = _unpack(archive, Path(scratch, base), ours=base in OURS)
            files = sorted(path.name for path in (tree / "thespian" / "test").glob("test_*.py"))
            if arguments.files:
                unknown = sorted(set(arguments.files) - set(files))
                if unknown:
                    raise SystemExit(f"Thespian {VERSION} has no tests {', '.join(unknown)}")
                files = [name for name in files if name in arguments.files]
            results[base] = {}
            for name in files:
                outcome = _pytest(tree, name, base)
                results[base][name] = outcome
                print(_line(base, name, outcome), flush=True)
    return _report(results)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sdist", type=Path, help=f"thespian-{VERSION}.tar.gz (else pip gets it)")
    parser.add_argument("--bases", nargs="+", default=["ours"], help="ours, ours-tcp, stock names")
    parser.add_argument("--files", nargs="*", help="only these test files")
    return parser.parse_args()


def _download(folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "-q", "download", "--no-deps", "--no-binary", "thespian"]
    subprocess.run([*pip, f"thespian=={VERSION}", "-d", folder], check=True, timeout=300)
    return next(folder.glob(f"thespian-{VERSION}*"))


def _unpack(archive: Path, folder: Path, *, ours: bool) -> Path:
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.3 has none
        tar.extractall(folder)  # noqa: S202 (its code is run next)
    tree = folder / f"thespian-{VERSION}"
    if ours:
        (tree / "thespian" / "system" / "multiprocTCPBase.py").write_text(SHIM)
    return tree


def _deselect(base: str) -> str:
    stock = "multiprocTCPBase" if base in OURS else base
    return " and ".join(f"not {name}" for name in (*OTHER_BASES, "AdminRouting") if name != stock)


def _pytest(tree: Path, name: str, base: str) -> Outcome:
    outcome = Outcome()
    report = tree / f"{name}.xml"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree), os.environ.get("PYTHONPATH", "")]),
        "CONFORMANCE_HOST": OURS.get(base, ""),
        "THESPLOG_FILE": str(tree / "thespian.log"),
    }
    # One test kills a program and expects its output to be lost in its buffer.
    environment.pop("PYTHONUNBUFFERED", None)
    started = monotonic()
    command = [sys.executable, "-m", "pytest", "-qq", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [*command, f"--junitxml={report}", "-k", _deselect(base), f"thespian/test/{name}"],
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output = f"timed out after {PATIENCE:g} s"
        outcome.counts["failed"] += 1
        outcome.failures.append(f"{name}: {output}")
    outcome.seconds = monotonic() - started
    if report.exists():
        _read(report, outcome)
    if not outcome.counts:  # some tests of every file apply: pytest itself ended, or skipped all
        outcome.counts["failed"] += 1
        outcome.failures.append(f"{name}: no test ran (exit code {process.returncode})")
    if outcome.failures:
        print(output)
    return outcome


def _read(report: Path, outcome: Outcome) -> None:
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 (written by pytest)
        kinds = {child.tag for child in case}
        if "failure" in kinds or "error" in kinds:
            kind = "failed"
            outcome.failures.append(f"{case.get('classname')}::{case.get('name')}")
        else:
            kind = "skipped" if "skipped" in kinds else "passed"
        outcome.counts[kind] += 1


def _line(base: str, name: str, outcome: Outcome) -> str:
    counts = outcome.counts
    return (
        f"{base:18} {name:38} passed {counts['passed']:4}  failed {counts['failed']:3}"
        f"  skipped {counts['skipped']:3}  {outcome.seconds:6.1f} s"
    )


def _report(results: dict[str, dict[str, Outcome]]) -> int:
    print("\nnot applicable to our base:")
    for pattern, reason in NOT_APPLICABLE.items():
        print(f"  {pattern}: {reason}")
    unexpected = 0
    for base, outcomes in results.items():
        total: Counter[str] = Counter()
        for outcome in outcomes.values():
            total += outcome.counts
        clean = sum(1 for outcome in outcomes.values() if not outcome.failures)
        print(
            f"\n{base}: {total['passed']} passed, {total['failed']} failed, {total['skipped']}"
            f" skipped by the tests themselves; {clean} of {len(outcomes)} files clean"
        )
        for outcome in outcomes.values():
            for failure in outcome.failures:
                print(f"  FAILED {failure}")
        if base in OURS:
            unexpected += total["failed"]
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
