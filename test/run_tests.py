#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs tests of build folders and sums up: what failed and how it is repeated, what was skipped and
why, what took longest.

  run_tests.py [--jobs N] [--summary FILE] [--minutes N] FOLDER[:LABEL|:-LABEL] ...

FOLDER:LABEL runs the tests with that label, FOLDER:-LABEL those without it.  The exit status is 1
where a test failed, 2 where a run could not be made.  --summary adds the results of FILE, which an
earlier run wrote there, to the numbers at the end, and writes all of them.  After --minutes no test
begins; those that still run are ended, and count as skipped with those that were left out."""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

LIMIT = 1200    # seconds of a test that states no limit of its own
CUT = re.compile(r"Test +#\d+: (\S+) .*\*\*\*Timeout +([0-9.]+) sec")
ROOM = re.compile(r"^(?!more$|long$|gpu$)")


class LeftOut:
    """A test that was not run to its end for want of time."""

    def __init__(self, folder, room, name):
        self.folder, self.room, self.name, self.seconds = folder, room, name, 0
        self.state, self.why = "skipped", "no time was left"


class Result:
    """The result of one test in one folder."""

    def __init__(self, folder, room, case):
        self.folder, self.room = folder, room
        self.name, self.seconds = case.get("name"), float(case.get("time", 0))
        self.state = {"run": "passed", "fail": "failed"}.get(case.get("status"), "skipped")
        skipped = case.find("skipped")
        if self.state == "skipped" and (
                skipped is None or "SKIP" not in skipped.get("message", "")):
            self.state = "disabled" if case.get("status") == "disabled" else "failed"
        self.why = self.reason(case.findtext("system-out") or "")

    @staticmethod
    def reason(text):
        """Returns why a test was skipped: the last line that says so, or the last of all."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        told = [line for line in lines if re.search("skip|absent", line, re.I)]
        line = (told or lines or ["it does not say why"])[-1]
        return re.sub(r"^skipped: *|: skipped$", "", line, flags=re.I)


def tests_of(folder, choice):
    """Returns {test: (its room, its limit in seconds)}."""
    told = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1", *choice],
                          check=True, stdout=subprocess.PIPE)
    tests = {}
    for test in json.loads(told.stdout)["tests"]:
        told = {each["name"]: each["value"] for each in test.get("properties", [])}
        if not told.get("DISABLED"):
            tests[test["name"]] = (next(filter(ROOM.match, told.get("LABELS", [])), "-"),
                                   told.get("TIMEOUT", LIMIT))
    return tests


def call_ctest(command, tests):
    """Runs ctest and prints what it prints.  Returns the tests that it ended before their limit."""
    cut = set()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as ctest:
        for line in ctest.stdout:
            print(line, end="", flush=True)
            if (found := CUT.search(line)) and float(found[2]) < tests[found[1]][1]:
                cut.add(found[1])
    return cut


def run(folder, label, jobs, stop):
    """Runs the tests of one folder and returns their results; None: there are none.  stop: the time
    at which tests are ended, or None."""
    handle, path = tempfile.mkstemp(suffix=".xml")
    os.close(handle)
    choice = []
    if label:
        choice = ["-LE" if label.startswith("-") else "-L", f"^({label.removeprefix('-')})$"]
    command = ["ctest", "--test-dir", folder, "-j", str(jobs), "--output-on-failure",
               "--timeout", str(LIMIT), "--output-junit", path, *choice]
    if stop:
        command += ["--stop-time", time.strftime("%H:%M:%S", time.localtime(stop))]
    try:
        tests, cut, cases = tests_of(folder, choice), set(), []
        if not stop or time.time() < stop - 1:
            cut = call_ctest(command, tests)
            cases = list(xml.parse(path).getroot().iter("testcase"))
    except (OSError, subprocess.CalledProcessError, xml.ParseError) as error:
        print(f"{folder}: no results: {error}", file=sys.stderr)
        return None
    finally:
        os.unlink(path)
    results = [Result(folder, tests.get(case.get("name"), "-")[0], case) for case in cases
               if case.get("name") not in cut]
    if stop:
        named = {r.name for r in results}
        results += [LeftOut(folder, tests[name][0], name) for name in tests if name not in named]
    return results


def print_summary(results, earlier, seconds):
    counts = {state: sum(r.state == state for r in results) for state in
              ("passed", "failed", "skipped")}
    if slow := sorted(results, key=lambda r: -r.seconds)[:10]:
        print("\nslowest: " + ", ".join(f"{r.name} {r.seconds:.0f} s" for r in slow))
    for r in results:
        if r.state == "skipped":
            print(f"skipped: {r.name}: {r.why}")
    for r in results:
        if r.state == "failed":
            print(f"FAILED: {r.name} (room {r.room}); again alone: "
                  f"cd {r.folder} && ctest -R '^{re.escape(r.name)}$' --output-on-failure")
    total = {state: counts[state] + earlier.get(state, 0) for state in counts}
    minutes = (seconds + earlier.get("seconds", 0)) / 60
    print(f"{minutes:.1f} minutes of tests")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped",
          flush=True)
    return counts | {"seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--summary", metavar="FILE")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("folders", nargs="+", metavar="FOLDER[:LABEL]")
    wish = parser.parse_args()
    stop = time.time() + 60 * wish.minutes if wish.minutes is not None else None
    results, began, lost, earlier = [], time.monotonic(), False, {}
    for each in wish.folders:
        folder, _, label = each.partition(":")
        found = run(os.path.abspath(folder), label, wish.jobs, stop)
        lost |= found is None
        results += found or []
    if wish.summary and os.path.exists(wish.summary):
        with open(wish.summary, encoding="utf-8") as file:
            earlier = json.load(file)
    counts = print_summary(results, earlier, time.monotonic() - began)
    if wish.summary:
        with open(wish.summary, "w", encoding="utf-8") as file:
            json.dump({key: value + earlier.get(key, 0) for key, value in counts.items()}, file)
    return 2 if lost or not results else counts["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
