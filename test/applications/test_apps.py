# SPDX-License-Identifier: BSD-3-Clause
"""Tests examples/apps.py and `limber bench apps`: the applications with small sizes, and, with
programs made for this test, how rows, repeated runs and failing programs are handled."""
import argparse
import contextlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples")
sys.path.insert(0, FOLDER)
import apps         # noqa: E402
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import tell_skips

DATA = os.environ.get("LIMBER_DATA", "")
CLI = os.environ.get("LIMBER_CLI", "")
# A program that counts its runs in the file that is its argument, and prints times.
PROGRAM = """
import json, sys
with open(sys.argv[1], "a+") as file:
    file.write("x")
    file.seek(0)
    run = len(file.read()) - 1
ways = {"--plain": "plain", "--ours": "ours"}
by = next(ways[word] for word in sys.argv if word in ways)
seconds = [100, 3, 1, 2][run] if by == "plain" else [200, 0.5, 0.25, 9][run]
for part in 0.75, 0.25:
    print(json.dumps({"by": by, "seconds": part * seconds, "seconds_in_products": part,
                      "error": part}))
"""


def run_it(*options, program=(sys.executable, os.path.join(FOLDER, "apps.py")), **more):
    """Runs examples/apps.py, or the program that is given, and captures its output."""
    return subprocess.run([*program, *options], capture_output=True, text=True, **more)


class Runs(unittest.TestCase):
    """apps.measure reports times, failures and missing data of small test programs."""
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.options = argparse.Namespace(quick=False, runs=3, pictures=None, data=None, torch=None)

    def program(self, text):
        """Writes a program to a file and returns its path."""
        path = os.path.join(self.folder, "program.py")
        with open(path, "w") as file:
            file.write(text)
        return path

    def app(self, text, commands=((),), **more):
        """Describes an application that consists of this program."""
        return apps.App("made", self.program(text), "", ("error", ""), "plain", {}, commands,
                        **more)

    def measure(self, app):
        """Measures an application; returns the result and the progress lines."""
        shown = []
        made = apps.measure(app, self.options, dict(os.environ), shown.append)
        return made, shown

    def test_package(self):
        """An installed package uses its own library, also if the sources are found, too."""
        plain = os.environ.get("PYTHONPATH")
        with unittest.mock.patch.object(apps, "about", lambda *_: ""):
            self.assertEqual(apps.environment(None).get("PYTHONPATH"), plain)
        with unittest.mock.patch.object(apps, "about", lambda *_: None):
            folders = apps.environment(None)["PYTHONPATH"].split(os.pathsep)
        self.assertTrue(os.path.isfile(os.path.join(folders[-1], "limber", "__init__.py")))

    def test_medians(self):
        """The first run is not counted, ways alternate, and rows of the same way are merged."""
        counts = [os.path.join(self.folder, name) for name in ("a", "b")]
        made, shown = self.measure(self.app(PROGRAM, ((counts[0], "--ours"),
                                                      (counts[1], "--plain"))))
        self.assertEqual([row["by"] for row in made["rows"]], ["plain", "ours"])
        plain, ours = made["rows"]
        self.assertEqual((plain["seconds"], ours["seconds"]), (2, 0.5))
        self.assertEqual((plain["speed"], ours["speed"]), (1, 4))
        self.assertEqual((plain["seconds_in_products"], ours["speed_of_products"]), (1, 1))
        self.assertEqual(plain["accuracy"], 0.75)
        self.assertEqual(shown[1:3], ["made: run 1 of 4, 2 of 2", "made: run 2 of 4, 1 of 2"])

    def test_failures(self):
        """Programs that fail or print no JSON are reported as failed, exit status 77 as skipped."""
        for text, key, words in [("import sys; sys.exit('nothing here')", "failed", "nothing here"),
                                 ("print('{')", "failed", "it printed no JSON"),
                                 ("", "failed", "it ended with 0"),
                                 ("import sys; print('no data', file=sys.stderr); sys.exit(77)",
                                  "skipped", "no data")]:
            made, _ = self.measure(self.app(text))
            self.assertIn(words, made[key])
            self.assertNotIn("rows", made)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                apps.table(made)
            self.assertIn(f"{key}: {made[key]}", out.getvalue())

    def test_missing(self):
        """An application without its module or data is skipped with the reason."""
        for needs, words in ("torch", "PyTorch is not installed"), ("mnist", "no folder mnist in"):
            made, _ = self.measure(self.app("", needs=needs))
            self.assertIn(words, made["skipped"])

    def test_list(self):
        """Every program is listed; rows of pictures and of comparisons are named."""
        for app in (*apps.APPS, apps.AMPLITUDES):
            self.assertTrue(os.path.isfile(os.path.join(FOLDER, app.program)), app.program)
            if app.picture:
                self.assertLess(app.picture[1], len(app.commands))


class Program(unittest.TestCase):
    """Every application runs, and each way's error is within its limit."""
    def judge(self, made, accuracies):
        """Checks rows, speeds relative to the base row, and errors.  accuracies: largest error by
        way."""
        self.assertEqual({row["by"] for row in made["rows"]}, set(accuracies))
        rows = {row["by"]: row for row in made["rows"]}
        for by, row in rows.items():
            self.assertLessEqual(row["accuracy"], accuracies[by], by)
            base = rows[row["beside"]]
            self.assertAlmostEqual(row["speed"], base["seconds"] / row["seconds"])
            if row["seconds_in_products"] is not None:
                self.assertGreater(row["seconds_in_products"], 0)
            self.assertEqual(row["by"] == row["beside"], row is base)

    def test_dense_system(self):
        """The application lu, with a picture."""
        with tempfile.TemporaryDirectory() as folder:
            pictures = os.path.join(folder, "new", "pictures")
            done = run_it("--quick", "--json", "--apps", "lu", "--threads", "1", "--pictures",
                          pictures)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(pictures, "apps.svg")) as file:
                text = file.read()
            self.assertIn("bits=53: ", text)
            self.assertIn("</svg>", text)
        made = json.loads(done.stdout)
        self.assertEqual((made["threads"], made["quick"]), (1, True))
        ways = "blas", "native", "int8", "correct", "refined", "refined-bits", "lapack"
        self.judge(made["applications"][0], dict.fromkeys(ways, 1))

    @unittest.skipUnless(os.path.isdir(os.path.join(DATA, "mnist")), "no images in LIMBER_DATA")
    def test_digits(self):
        """The three applications on handwritten digits."""
        with tempfile.TemporaryDirectory() as folder:
            done = run_it("--quick", "--json", "--apps", "components,neighbours,clusters",
                          "--pictures", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(set(os.listdir(folder)), {"apps.svg", "components.png", "centres.png"})
        found = json.loads(done.stdout)["applications"]
        self.judge(found[0], {"blas f64": 0, "blas f32": 1e-4, "exact": 0,
                              **dict.fromkeys(apps.TYPES, 1e-4)})
        for made in found[1:]:
            self.judge(made, {"blas f64": 0, "exact": 0, "blas f32": 1000,
                              **dict.fromkeys(apps.TYPES, 1000)})

    @unittest.skipUnless(os.path.isdir(os.path.join(DATA, "qasm")), "no circuits in LIMBER_DATA")
    def test_circuits(self):
        """The application circuits."""
        done = run_it("--quick", "--json", "--apps", "circuits")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.judge(json.loads(done.stdout)["applications"][0],
                   {"blas f64": 1e-15, "f64": 1e-15, "correct": 1e-16, "blas f32": 1e-6,
                    "f32": 1e-6, "f16": 1e-2, **dict.fromkeys(apps.TYPES, 1e-6)})

    @unittest.skipUnless(os.path.isdir(os.path.join(DATA, "qasm")), "no circuits in LIMBER_DATA")
    def test_figures(self):
        """Figures of Ape have its applications; figure 13 has FP16."""
        for number, names in (9, apps.FIGURES[9][0]), (13, ("amplitudes",)):
            with tempfile.TemporaryDirectory() as folder:
                done = run_it("--quick", "--json", "--figure", str(number), "--pictures", folder)
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(os.path.join(folder, f"ape-{number}.svg")) as file:
                    text = file.read()
            found = json.loads(done.stdout)["applications"]
            self.assertEqual([made["name"] for made in found], list(names))
            for name in apps.TYPES if number == 9 else ("f16", "fp32-f", "fp32-b", "f32"):
                self.assertIn(f"{name}: ", text)
        rows = {row["by"]: row["accuracy"] for row in found[0]["rows"]}
        self.assertGreater(rows["f16"], 100 * max(rows[name] for name in rows if name != "f16"))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch")
    def test_encoder_of_berts_size(self):
        """The application bert."""
        done = run_it("--quick", "--json", "--apps", "bert")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.judge(json.loads(done.stdout)["applications"][0],
                   dict.fromkeys(("torch", *apps.TYPES), 1e-5))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch")
    def test_network(self):
        """The application resnet."""
        done = run_it("--quick", "--json", "--apps", "resnet", "--threads", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.judge(json.loads(done.stdout)["applications"][0],
                   dict.fromkeys(("torch", "native", "correct", "fp32-b"), 1e-5))

    def test_bad_options(self):
        """Bad options are refused with a message."""
        with tempfile.NamedTemporaryFile() as file:
            for options, words in [(["--apps", "lu,go"], "--apps: go is none of components, "),
                                   (["--runs", "0"], "--runs: "), (["--threads", "0"], "--threads"),
                                   (["--pictures", file.name], f"--pictures: {file.name}: ")]:
                done = run_it(*options)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(words, done.stderr)


@unittest.skipUnless(CLI, "no command line")
class CommandLine(unittest.TestCase):
    """The command `limber bench` runs the programs of the examples."""
    def test_table(self):
        """`limber bench apps` prints tables, and says what was skipped."""
        env = {name: value for name, value in os.environ.items()
               if name not in ("PYTHONPATH", "LIMBER_LIBRARY", "LIMBER_DATA")}
        env["PATH"] = os.path.dirname(sys.executable) + ":" + env["PATH"]
        done = run_it("bench", "apps", "--quick", "--apps", "components,lu", program=[CLI], env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("components: principal components", done.stdout)
        self.assertIn("  skipped: no folder mnist in", done.stdout)
        self.assertRegex(done.stdout, r"\n  correct .*  [0-9.]+ +[0-9.]+ +[0-9]+% .* blas  ")

    def test_calls(self):
        """`limber bench python` times small products."""
        env = {name: value for name, value in os.environ.items()
               if name not in ("PYTHONPATH", "LIMBER_LIBRARY")}
        env["PATH"] = os.path.dirname(sys.executable) + ":" + env["PATH"]
        done = run_it("bench", "python", "--sizes", "4,9", "--runs", "1", "--json", program=[CLI],
                      env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        made = json.loads(done.stdout)
        self.assertEqual([(row["format"], row["n"]) for row in made["products"]],
                         [("f64", 4), ("f64", 9), ("f32", 4), ("f32", 9)])
        self.assertTrue(made["preload"].endswith("liblimber_blas.so"))
        for row in made["products"]:
            self.assertEqual(len(row["seconds"]), 5)
            self.assertTrue(all(0 < t < 1 for t in row["seconds"].values()), row)

    def test_nowhere(self):
        """Without the examples' folder `limber bench apps` ends with an error."""
        with tempfile.TemporaryDirectory() as folder:
            # the command finds its library in this folder
            beside = os.path.dirname(os.environ["LIMBER_LIBRARY"])
            done = run_it("bench", "apps", program=[shutil.copy(CLI, folder)],
                          env={**os.environ, "LD_LIBRARY_PATH": beside})
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, "^limber: bench apps: there is no .*/apps.py beside this")

    def test_other_python(self):
        """Where the first Python of PATH has no NumPy, one of the system that has it is taken."""
        with tempfile.TemporaryDirectory() as folder:
            first = os.path.join(folder, "python3")
            with open(first, "w") as file:
                file.write(f"#!/bin/sh\necho asked >> {folder}/log\nexit 1\n")
            os.chmod(first, 0o755)
            env = {**os.environ, "PATH": folder + ":" + os.environ["PATH"]}
            done = run_it("bench", "apps", "--quick", "--apps", "lu", program=[CLI], env=env)
            self.assertTrue(os.path.isfile(os.path.join(folder, "log")))
        ours = subprocess.run(["/usr/bin/python3", "-c", "import numpy"], capture_output=True,
                              check=False).returncode == 0
        self.assertEqual(done.returncode == 0, ours, done.stderr)


if __name__ == "__main__":
    tell_skips.main()
