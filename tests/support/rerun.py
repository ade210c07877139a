"""Run pytest, and what failed once more: `python tests/support/rerun.py [--unstable FILE] [pytest's arguments]`.

Up to three failed tests are run again, each alone in a new process. If all of them pass then, the run is green, and
names them as unstable, at its end and in FILE. It fails if a test fails twice, if a fourth test failed, or if something
else did: a process crashed, a file cannot be collected, pytest itself failed, or it ran no test.
"""

import argparse
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

MOST_RUN_AGAIN = 3


class Failures:
    """A plugin of pytest that keeps the names of the tests that failed, and all else that did."""

    def __init__(self) -> None:
        self.tests: list[str] = []  # node ids, below `root`
        self.others: list[str] = []  # sentences
        self.root = Path()

    def pytest_configure(self, config: pytest.Config) -> None:
        self.root = config.rootpath

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        if report.when not in ("setup", "call", "teardown"):  # so pytest-xdist reports what ran when a process crashed
            self.others.append(f"a process crashed in {report.nodeid}")
        elif report.nodeid not in self.tests:
            self.tests.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.others.append(f"{report.nodeid} cannot be collected")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        if error:
            self.others.append(f"the process {node.gateway.id} ended: {error}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.shouldfail:  # --maxfail: other tests did not run
            self.others.append(str(session.shouldfail))


def passes_alone(test: str, root: Path) -> bool:
    """Run one test in a new process, whatever its marks."""
    program = Path(sysconfig.get_path("scripts")) / "pytest"
    return subprocess.run([program, "-q", "-m", "", test], cwd=root, check=False).returncode == pytest.ExitCode.OK


def why_not_again(status: int, failures: Failures) -> str | None:
    """Say why the failed tests of a run need no second try; None if they are to have one."""
    if failures.others:
        return "; ".join(failures.others)
    if status != pytest.ExitCode.TESTS_FAILED or not failures.tests:
        return f"pytest ended with {status}"
    if len(failures.tests) > MOST_RUN_AGAIN:
        return f"{len(failures.tests)} tests failed, more than {MOST_RUN_AGAIN}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__.split("\n")[0], add_help=False, allow_abbrev=False)
    parser.add_argument("--unstable", type=Path, metavar="FILE")
    own, arguments = parser.parse_known_args()
    failures = Failures()
    status = int(pytest.main(arguments, plugins=[failures]))
    if status == pytest.ExitCode.OK and not failures.others:
        return 0
    if reason := why_not_again(status, failures):
        print(f"No test is run again: {reason}.", flush=True)
        return status or 1
    print(f"Run again, each alone: {', '.join(failures.tests)}", flush=True)
    unstable = [test for test in failures.tests if passes_alone(test, failures.root)]
    lines = [f"UNSTABLE: {test} failed, and passed when it ran alone" for test in unstable]
    lines += [f"FAILED TWICE: {test}" for test in failures.tests if test not in unstable]
    print("\n".join(lines), flush=True)
    if own.unstable:
        with own.unstable.open("a") as file:
            file.writelines(f"{test}\n" for test in unstable)
    return int(unstable != failures.tests)


if __name__ == "__main__":
    sys.exit(main())
