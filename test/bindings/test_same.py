# SPDX-License-Identifier: BSD-3-Clause
"""Tests what `python -m limber same` says about scripts whose results depend on the number of
threads that it sets, or on nothing."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

WIDE = 'import os\nthreads = int(os.environ["LIMBER_THREADS"])\n'


class Same(unittest.TestCase):
    """The command `limber same` runs a script twice and names what differs."""
    def same(self, text, *words, name="script.py"):
        """Runs it on a script of this text; returns the status and the output."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
            done = subprocess.run([sys.executable, "-m", "limber", "same", *(words or (name,))],
                                  check=False, cwd=folder, capture_output=True, text=True)
            return done.returncode, done.stdout + done.stderr

    def test_equal(self):
        """A script with the same results under all settings."""
        status, said = self.same("import sys\nx = [1.0, {'a': 2}]\nprint(len(sys.argv), x)\n",
                                 "script.py", "more")
        self.assertEqual(status, 0, said)
        self.assertIn("1 lines, 1 variables to compare with", said)
        self.assertIn("as it is, 2 threads: the same\n", said)
        self.assertTrue(said.endswith("The script gives the same under all of them.\n"), said)

    def test_variable(self):
        """Variables that depend on the number of threads are named, with the line that sets the
        first one."""
        status, said = self.same(WIDE + "kept = {'a': [0.5 * threads]}\nother = 5\n")
        self.assertEqual(status, 1, said)
        self.assertIn("as it is, 2 threads: differs\n    kept (dict) differs\n"
                      "    threads (int) differs\n", said)
        self.assertIn("OpenBLAS for Prescott: the same\n", said)
        self.assertIn("First different at script.py:2: threads\n"
                      '    threads = int(os.environ["LIMBER_THREADS"])\n', said)
        self.assertIn("1 of the runs differ", said)

    def test_call(self):
        """A variable that differs is local to a function; a difference is only in the printed
        text."""
        status, said = self.same("import os\ndef f(x):\n    y = os.environ['LIMBER_THREADS'] * x\n"
                                 "    print(y)\n    return 0\nz = f(2)\n")
        self.assertEqual(status, 1, said)
        self.assertIn("    -11\n    +22\nOpenBLAS", said)
        self.assertIn("First different at script.py:3: y\n", said)
        status, said = self.same("import os\nprint(1)\nprint(os.environ['LIMBER_THREADS'])\n")
        self.assertEqual(status, 1, said)
        self.assertIn("First different at script.py:3: what is printed\n", said)
        status, said = self.same("import os\nif os.environ['LIMBER_THREADS'] == '1':\n    x = 1\n"
                                 "else:\n    x = 1\n    y = 2\nprint(x)\n")
        self.assertEqual(status, 1, said)
        self.assertIn("    y is a variable of only one run\n", said)
        self.assertIn("The script goes another way at script.py:3.\n", said)

    def test_object(self):
        """The difference is in an object's attribute; the script ends by sys.exit."""
        status, said = self.same(WIDE + "import sys\nclass Model:\n    def fit(self, x):\n"
                                 "        self.coef = x\nmodel = Model()\nmodel.fit(threads)\n"
                                 "del threads\nsys.exit(0)\n")
        self.assertEqual(status, 1, said)
        self.assertIn("    model (Model) differs\n", said)

    def test_ways(self):
        """Runs code given by -c or as a module, as Python does."""
        status, said = self.same("", "-c", "import os; x = os.environ['LIMBER_THREADS']")
        self.assertEqual(status, 1, said)
        self.assertIn("First different at <string>:1: x\n", said)
        status, said = self.same(WIDE, "-m", "module", name="module.py")
        self.assertEqual(status, 1, said)
        self.assertIn("    threads (int) differs\n", said)
        self.assertIn("First different at module.py:2: threads\n", said)
        status, said = self.same("import sys\nsys.exit(3)\n")
        self.assertEqual(status, 2, said)
        self.assertIn("the script ended with status 3", said)
        status, said = self.same("import os\nprint(os._exit(0))\n")
        self.assertEqual(status, 0, said)

    @unittest.skipIf(importlib.util.find_spec("numpy") is None, "no NumPy")
    def test_array(self):
        """Arrays that differ are shown with all digits."""
        status, said = self.same(WIDE + "import numpy\na = numpy.arange(3) / 3.0\n"
                                 "a[1] += threads * 1e-16\nprint(a)\n")
        self.assertEqual(status, 1, said)
        self.assertIn("    a (ndarray) differs in 1 of 3 numbers\n", said)
        self.assertRegex(said, r"(?m)^ +-.*0\.333333333333333\d")     # all digits
        self.assertIn("First different at script.py:2: threads\n", said)


if __name__ == "__main__":
    unittest.main()
