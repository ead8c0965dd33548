# SPDX-License-Identifier: BSD-3-Clause
"""Tests tools/suites.py: what counts as another result, and what is refused."""
import os
import subprocess
import sys
import unittest

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools")
sys.path.insert(0, TOOLS)
sys.dont_write_bytecode = True
import suites       # noqa: E402


class Lines(unittest.TestCase):
    """Comparison of a suite's output lines between two libraries."""
    def test_numbers_may_differ_in_their_last_digits(self):
        near = suites.Suites.near
        self.assertTrue(near("[1] 0.1234567 -3e5", "[1] 0.1234568 -3e5"))
        self.assertTrue(near("<environment: 0x55d0c8>", "<environment: 0x7ff31>"))
        self.assertFalse(near("[1] 0.1234567", "[1] 0.1244567"))
        self.assertFalse(near("[1] 1 2", "[1] 1"))
        self.assertFalse(near("converged", "failed"))

    def test_pages_that_differ_are_named(self):
        lines = ["> ### Name: eigen", "1.5", "> ### Name: svd", "2.5"]
        differing = suites.Suites.__new__(suites.Suites).differing
        self.assertEqual(differing(lines, list(lines)), set())
        self.assertEqual(differing(lines, lines[:3] + ["2.6"]), {"svd"})
        self.assertEqual(differing(lines, lines[:2]), {"svd"})
        self.assertEqual(differing(lines, None), {""})


class Arguments(unittest.TestCase):
    """Command lines of tools/suites.py."""
    def run_it(self, *options):
        """Runs suites.py with options."""
        return subprocess.run([sys.executable, os.path.join(TOOLS, "suites.py"), *options],
                              capture_output=True, text=True, check=False)

    def test_bad_arguments_are_refused(self):
        for options, said in ((("numpi",), "no suite is called numpi"),
                              (("--library", "nowhere.so"), "--library: nowhere.so: no such file")):
            done = self.run_it(*options)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
        done = self.run_it("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("example:", done.stdout)


if __name__ == "__main__":
    unittest.main()
