#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs tests of build folders and sums up: what failed and how it is repeated, what was skipped and
why, what took longest.

  run_tests.py [--jobs N] [--summary FILE] [--minutes N] FOLDER[:LABEL][:-LABEL] ...

FOLDER:LABEL runs the tests with that label, FOLDER:-LABEL those without it.  The exit status is 1
where a test failed, 2 where a run could not be made.  --summary adds the results of FILE, which
earlier runs wrote there, and writes all of them.  After --minutes no test begins; those that still
run are ended, and are named with those that were left out."""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

LIMIT = 1200    # seconds, for a test that sets no limit of its own
CUT = re.compile(r"Test +#\d+: (\S+) .*\*\*\*Timeout +([0-9.]+) sec")
ROOM = re.compile(r"^(?!more$|long$|gpu$)")
# variables that change what a test does: the command that repeats it has them, too
SETTINGS = re.compile(r"LIMBER_(TEST_.*|DATA|ISA|KERNELS|PEERS)|SIMT_.*")


class Result:
    """The result of one test in one folder."""

    def __init__(self, folder, room, name, seconds=0.0, state="not run", why="", parts=()):
        """state: passed, failed, skipped, or not run; why: the reason; parts: a program's skipped
        tests."""
        self.folder, self.room, self.name, self.seconds = folder, room, name, seconds
        self.state, self.why, self.parts = state, why, list(parts)

    @classmethod
    def of_case(cls, folder, room, case):
        """The result that ctest has written."""
        state = {"run": "passed", "fail": "failed"}.get(case.get("status"), "skipped")
        skipped, text = case.find("skipped"), case.findtext("system-out") or ""
        if state == "skipped" and (skipped is None or "SKIP" not in skipped.get("message", "")):
            state = "disabled" if case.get("status") == "disabled" else "failed"
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        notes = [line for line in lines if re.search("skip|absent|: not (tested|run)$", line, re.I)
                 and not re.search(r"^\[ |TEST\(S\)|^\d+ skipped|^OK \(|\.\.\. skipped ", line)]
        notes = [re.sub(r"^skipped: *|: skipped$", "", line, flags=re.I) for line in notes]
        why = (notes or lines or ["it does not say why"])[-1]
        # a program of several tests may skip some of them and pass
        parts = {}
        for reason, name in re.findall(r"^(?:skipped: (.*)\n)?\[  SKIPPED \] (\w+)$", text, re.M):
            parts.setdefault(name, name + (f" ({reason})" if reason else ""))
        return cls(folder, room, case.get("name"), float(case.get("time", 0)), state, why,
                   dict.fromkeys(parts.values() or notes))


def tests_of(folder, choice):
    """Returns {test: (its room, its time limit in seconds)}."""
    listing = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1", *choice],
                             check=True, stdout=subprocess.PIPE)
    tests = {}
    for test in json.loads(listing.stdout)["tests"]:
        properties = {each["name"]: each["value"] for each in test.get("properties", [])}
        if not properties.get("DISABLED"):
            tests[test["name"]] = (next(filter(ROOM.match, properties.get("LABELS", [])), "-"),
                                   properties.get("TIMEOUT", LIMIT))
    return tests


def call_ctest(command, tests):
    """Runs ctest and prints its output.  Returns the tests that were ended before their limit."""
    cut = set()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as ctest:
        for line in ctest.stdout:
            print(line, end="", flush=True)
            if (found := CUT.search(line)) and float(found[2]) < tests[found[1]][1]:
                cut.add(found[1])
    return cut


def run(folder, label, jobs, stop):
    """Runs the tests of one folder and returns their results, or None if there are no tests.
    stop: the time at which tests are ended, or None."""
    handle, path = tempfile.mkstemp(suffix=".xml")
    os.close(handle)
    choice = []
    for each in filter(None, label.split(":")):
        choice += ["-LE" if each.startswith("-") else "-L", f"^({each.removeprefix('-')})$"]
    command = ["ctest", "--test-dir", folder, "-j", str(jobs), "--output-on-failure",
               "--timeout", str(LIMIT), "--test-output-size-passed", "100000",
               "--output-junit", path, *choice]
    if stop:
        command += ["--stop-time", time.strftime("%H:%M:%S", time.localtime(stop))]
    try:
        tests, cut, cases = tests_of(folder, choice), set(), []
        if not tests:
            raise OSError("no test has the label " + label)
        if not stop or time.time() < stop - 1:
            cut = call_ctest(command, tests)
            cases = list(xml.parse(path).getroot().iter("testcase"))
    except (OSError, subprocess.CalledProcessError, xml.ParseError) as error:
        print(f"{folder}: no results: {error}", file=sys.stderr)
        return None
    finally:
        os.unlink(path)
    results = [Result.of_case(folder, tests.get(case.get("name"), "-")[0], case) for case in cases
               if case.get("name") not in cut]
    if stop:
        named = {r.name for r in results}
        results += [Result(folder, tests[name][0], name) for name in tests if name not in named]
    return results


def print_summary(results, seconds):
    """Prints the slowest tests, skips and failures with their reasons, and the numbers of tests."""
    counts = {state: sum(r.state == state for r in results) for state in
              ("passed", "failed", "skipped")}
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(os.environ.items())
                        if SETTINGS.fullmatch(name))
    ran = [r for r in results if r.state != "not run"]
    if slow := sorted(ran, key=lambda r: -r.seconds)[:10]:
        print("\nslowest: " + ", ".join(f"{r.name} {r.seconds:.0f} s" for r in slow))
    for r in results:
        if r.state == "passed" and r.parts:
            print(f"partly skipped: {r.name}: {', '.join(r.parts)}")
    for r in results:
        if r.state == "skipped":
            print(f"skipped: {r.name}: {r.why}")
    for r in results:
        if r.state == "failed":
            print(f"FAILED: {r.name} (room {r.room}); again alone: cd {shlex.quote(r.folder)} && "
                  f"{settings} ctest -R '^{re.escape(r.name)}$' --output-on-failure")
    print(f"{seconds / 60:.1f} minutes of tests")
    if late := [r.name for r in results if r.state == "not run"]:
        print(f"{len(late)} tests were not run: no time was left ({', '.join(late)})")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--summary", metavar="FILE")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("folders", nargs="+", metavar="FOLDER[:LABEL]")
    wish = parser.parse_args()
    stop = time.time() + 60 * wish.minutes if wish.minutes is not None else None
    results, began, lost = [], time.monotonic(), False
    for each in wish.folders:
        folder, _, label = each.partition(":")
        found = run(os.path.abspath(folder), label, wish.jobs, stop)
        lost |= found is None
        results += found or []
    failed = any(r.state == "failed" for r in results)
    empty, seconds, earlier = not results, time.monotonic() - began, {"seconds": 0, "results": []}
    if wish.summary and os.path.exists(wish.summary) and os.path.getsize(wish.summary):
        with open(wish.summary, encoding="utf-8") as file:
            earlier = json.load(file)
    results = [Result(**one) for one in earlier["results"]] + results
    seconds += earlier["seconds"]
    print_summary(results, seconds)
    if wish.summary:
        with open(wish.summary, "w", encoding="utf-8") as file:
            json.dump({"seconds": seconds, "results": [vars(r) for r in results]}, file)
    return 2 if lost or empty else failed


if __name__ == "__main__":
    sys.exit(main())
