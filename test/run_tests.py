#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs tests of build folders and sums up: what failed and how it is repeated, what was skipped and
why, what took longest.

  run_tests.py [--jobs N] [--summary FILE] FOLDER[:LABEL|:-LABEL] ...

FOLDER:LABEL runs the tests with that label, FOLDER:-LABEL those without it.  The exit status is 1
where a test failed, 2 where a run could not be made.  --summary adds the results of FILE, which an
earlier run wrote there, to the numbers at the end, and writes all of them."""
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
ROOM = re.compile(r"^(?!more$|long$|gpu$)")


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


def rooms_of(folder):
    """Returns {test: its room}."""
    told = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"], check=True,
                          stdout=subprocess.PIPE)
    rooms = {}
    for test in json.loads(told.stdout)["tests"]:
        labels = [label for property in test.get("properties", []) if property["name"] == "LABELS"
                  for label in property["value"]]
        rooms[test["name"]] = next(filter(ROOM.match, labels), "-")
    return rooms


def run(folder, label, jobs):
    """Runs the tests of one folder and returns their results; None: there are none."""
    handle, path = tempfile.mkstemp(suffix=".xml")
    os.close(handle)
    command = ["ctest", "--test-dir", folder, "-j", str(jobs), "--output-on-failure",
               "--timeout", str(LIMIT), "--output-junit", path]
    if label:
        command += ["-LE" if label.startswith("-") else "-L", f"^({label.removeprefix('-')})$"]
    try:
        rooms = rooms_of(folder)
        subprocess.run(command, check=False)
        cases = list(xml.parse(path).getroot().iter("testcase"))
    except (OSError, subprocess.CalledProcessError, xml.ParseError) as error:
        print(f"{folder}: no results: {error}", file=sys.stderr)
        return None
    finally:
        os.unlink(path)
    return [Result(folder, rooms.get(case.get("name"), "-"), case) for case in cases]


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
    parser.add_argument("folders", nargs="+", metavar="FOLDER[:LABEL]")
    wish = parser.parse_args()
    results, began, lost, earlier = [], time.monotonic(), False, {}
    for each in wish.folders:
        folder, _, label = each.partition(":")
        found = run(os.path.abspath(folder), label, wish.jobs)
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
