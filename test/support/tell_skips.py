# SPDX-License-Identifier: BSD-3-Clause
"""unittest.main() for tests that may be skipped: prints each reason once, for run_tests.py."""
import collections
import unittest


class Result(unittest.TextTestResult):
    """The result of a run."""

    def printErrors(self):
        super().printErrors()
        for reason, tests in collections.Counter(why for _, why in self.skipped).items():
            self.stream.writeln(f"skipped: {reason} (tests: {tests})")


class Runner(unittest.TextTestRunner):
    """Runs tests and prints their results."""
    resultclass = Result


def main(**options):
    unittest.main(testRunner=Runner, **options)
