#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the test suites of NumPy, SciPy and R, each without Limber and with Limber intercepting its
BLAS calls, and compares: a test that fails only with Limber shows a fault.  SciPy's tests marked
`slow`, which its own runner leaves out, run with --slow.  The suites `functions` (of SciPy and
NumPy) and `models` (of scikit-learn) run under several kernels of OpenBLAS and numbers of threads,
and compare bits: with Limber, under `reproducible` and for functions also under `correct`, each
must be the same.

example: python3 tools/suites.py --library build/tools/interpose/blas/liblimber_blas.so numpy"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import venv
import xml.etree.ElementTree as xml

PACKAGES = "numpy scipy scikit-learn pytest pytest-xdist pytest-timeout hypothesis".split()
SUITES = "numpy scipy r functions models".split()
KERNELS = "SkylakeX Haswell Prescott".split()       # of OpenBLAS
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
# Words in R's output that differ from run to run.
CHANGING = re.compile(r"0x[0-9a-f]+|/tmp/\S+|Rtmp\S+|\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d")


class Absent(Exception):
    """A program or package that a suite needs is absent."""


def progress(text):
    """Shows a line of progress if stderr is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


class Suites:
    """Runs the tests of other projects, with and without Limber."""
    def __init__(self, wish):
        self.wish = wish
        self.folder = pathlib.Path(wish.folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)

    def environment(self, limber, name):
        """The environment of a program that runs with or without Limber preloaded."""
        env = {key: value for key, value in os.environ.items()
               if not key.startswith("LIMBER_") and key != "LD_PRELOAD"}
        env.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
        if limber:
            env.update(LD_PRELOAD=str(pathlib.Path(self.wish.library).resolve()),
                       LIMBER_CONTRACT=self.wish.contract,
                       LIMBER_CACHE_DIR=str(self.folder / "cache"),
                       LIMBER_REPORT=str(self.folder / f"{name}-%p.json"))
        return env

    def served(self, name):
        """Number of calls that Limber computed, by the reports of the processes."""
        calls = 0
        for path in self.folder.glob(f"{name}-*.json"):
            calls += json.loads(path.read_text()).get("served", {}).get("calls", 0)
            path.unlink()
        return calls

    # ---- Python ----

    def python(self):
        """The Python of a virtual environment with the packages, which it makes first."""
        root = self.folder / "venv"
        python = root / "bin" / "python"
        if not (root / "ready").exists():
            venv.create(root, with_pip=True)
            command = [python, "-m", "pip", "install", "-q", *PACKAGES]
            if subprocess.run(command, check=False).returncode:
                raise Absent("pip cannot install " + " ".join(PACKAGES))
            (root / "ready").touch()
        return python

    def pytest(self, package, limber):
        """Runs a package's tests.  Returns {test: whether it failed}."""
        name = f"{package}-{'with' if limber else 'without'}"
        path = self.folder / f"{name}.xml"
        path.unlink(missing_ok=True)
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as log:
            subprocess.run(
                [self.python(), "-m", "pytest", "-q", "-n", str(self.wish.jobs), "-p",
                 "no:cacheprovider", "--timeout", "1800", f"--junitxml={path}",
                 *(["-m", "not slow"] if package == "scipy" and not self.wish.slow else []),
                 "--pyargs", package],
                cwd=self.folder, env=self.environment(limber, name), stdout=log, stderr=log,
                check=False)
        if not path.exists():
            raise RuntimeError(f"{package}: pytest left no results; see {name}.log")
        return {f"{case.get('classname')}::{case.get('name')}":
                case.find("failure") is not None or case.find("error") is not None
                for case in xml.parse(path).getroot().iter("testcase")}

    def of_python(self, package):
        """Results of a Python package's own tests."""
        code = f"import {package}; print({package}.__version__)"
        version = subprocess.run([self.python(), "-c", code], capture_output=True, text=True,
                                 check=True).stdout.strip()
        without, ours = self.pytest(package, False), self.pytest(package, True)
        return {"version": version, "tests": len(ours), "failed_without": sum(without.values()),
                "failed_with": sum(ours.values()), "missing": len(without.keys() - ours.keys()),
                "only_with": sorted(test for test, failed in ours.items()
                                    if failed and not without.get(test, False)),
                "served": self.served(f"{package}-with")}

    def numpy(self):
        """NumPy's tests."""
        return self.of_python("numpy")

    def scipy(self):
        """SciPy's tests."""
        return self.of_python("scipy")

    # ---- equal bits ----

    def digests(self, script, contract, kernel, threads):
        """Runs a script that prints names with digests, under a contract or without Limber.
        Returns {name: digest}."""
        env = self.environment(contract, f"{script[0][:-3]}-with")
        env.update(OPENBLAS_CORETYPE=kernel, OPENBLAS_NUM_THREADS=threads, LIMBER_THREADS=threads)
        if contract:
            library = pathlib.Path(self.wish.library).resolve()
            found = [path for folder in (library.parent / "limber", library.parents[1] / "lapack")
                     for path in sorted(folder.glob("liblimber_lapack??.so"))]
            if not found:
                raise Absent("Limber's LAPACK was not built")
            env.update(LD_PRELOAD=":".join(map(str, [library, *found])),
                       LIMBER_CONTRACT=contract)
        folder = pathlib.Path(__file__).parents[1] / "test" / "interpose" / "lapack"
        done = subprocess.run([self.python(), folder / script[0], *script[1:]], env=env,
                              check=True, capture_output=True, text=True)
        return dict(line.split() for line in done.stdout.splitlines())

    def same_bits(self, package, script, contracts):
        """Names of results whose bits differ between kernels of OpenBLAS or numbers of threads,
        without Limber and under each contract."""
        changed = {}
        for contract in ("", *contracts):
            runs = [self.digests(script, contract, kernel, threads)
                    for kernel in KERNELS for threads in "12"]
            changed[contract] = [f"{name} {contract}" for name in runs[0]
                                 if len({run[name] for run in runs}) > 1]
        version = subprocess.run(
            [self.python(), "-c", f"import {package}; print({package}.__version__)"],
            capture_output=True, text=True, check=True).stdout.strip()
        only = [name for contract in contracts for name in changed[contract]]
        return {"contract": " ".join(contracts), "version": version, "tests": len(runs[0]),
                "failed_without": len(changed[""]), "failed_with": len(only), "missing": 0,
                "only_with": only, "served": self.served(f"{script[0][:-3]}-with")}

    def functions(self):
        """Functions of SciPy's."""
        return self.same_bits("scipy", ["functions.py", "6", "70"], ["reproducible", "correct"])

    def models(self):
        """Models of scikit-learn's."""
        return self.same_bits("sklearn", ["models.py"], ["reproducible"])

    # ---- R ----

    def r_examples(self, name, limber):
        """Runs the examples of R's packages.  Returns {package: lines of output}, with None for the
        lines if the examples failed."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        script = """packages <- rownames(installed.packages(priority = c("base", "recommended")))
            for (p in setdiff(packages, c("base", "tcltk")))
                cat("status", p, tools::testInstalledPackage(p, types = "examples"), "\\n")"""
        done = subprocess.run(["Rscript", "-e", script], cwd=folder, check=False,
                              env=self.environment(limber, name), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        status = dict(re.findall(r"^status (\S+) (\d)", done.stdout, re.M))
        lines = {}
        for package, code in status.items():
            path = folder / f"{package}-Ex.Rout"
            lines[package] = None if code != "0" else (
                path.read_text(errors="replace").splitlines() if path.exists() else [])
        return lines

    @staticmethod
    def near(a, b):
        """True if two lines agree except in the last digits of numbers."""
        a, b = CHANGING.sub("", a), CHANGING.sub("", b)
        if NUMBER.sub("#", a) != NUMBER.sub("#", b):
            return False
        return all(abs(float(x) - float(y)) <= 1e-5 * max(abs(float(x)), abs(float(y))) + 1e-9
                   for x, y in zip(NUMBER.findall(a), NUMBER.findall(b)))

    @staticmethod
    def parts(lines):
        """Splits the output of examples.  Returns {help page: output}."""
        parts, name = {}, ""
        for line in lines or ():
            name = line[12:] if line.startswith("> ### Name: ") else name
            parts.setdefault(name, []).append(line)
        return parts

    def differing(self, a, b):
        """Help pages whose examples print something different in both runs; [""] if the examples
        failed in only one of the runs."""
        if (a is None) != (b is None):
            return {""}
        a, b = self.parts(a), self.parts(b)
        return {name for name in a.keys() | b.keys()
                if len(a.get(name, ())) != len(b.get(name, ())) or
                not all(map(self.near, a[name], b[name]))}

    def r(self):
        """Examples of R's manual pages."""
        try:
            version = subprocess.run(["R", "--version"], capture_output=True, text=True, check=True)
        except OSError as error:
            raise Absent("R is not installed") from error
        first, again = self.r_examples("r-without", False), self.r_examples("r-again", False)
        ours = self.r_examples("r-with", True)
        only = []
        for package, lines in ours.items():
            changing = self.differing(first[package], again[package])
            only += [f"{package}: {page}" for page in
                     sorted(self.differing(first[package], lines) - changing)]
        return {"version": version.stdout.split()[2], "tests": len(ours),
                "failed_without": sum(lines is None for lines in first.values()),
                "failed_with": sum(lines is None for lines in ours.values()),
                "missing": len(first.keys() - ours.keys()), "only_with": only,
                "served": self.served("r-with")}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default="build/tools/interpose/blas/liblimber_blas.so",
                        help="Limber before a BLAS (%(default)s)")
    parser.add_argument("--folder", default="build-suites", help="for packages, logs and results")
    parser.add_argument("--contract", default="correct", help="(%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--slow", action="store_true", help="SciPy's slow tests, too")
    parser.add_argument("--json", action="store_true", help="print one object a suite")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)} (all)")
    wish = parser.parse_args()
    for name in wish.suites:
        if name not in SUITES:
            parser.error(f"no suite is called {name}")
    if not os.path.exists(wish.library):
        parser.error(f"--library: {wish.library}: no such file")
    suites, bad = Suites(wish), False
    for name in wish.suites or SUITES:
        progress(f"{name} ...")
        try:
            row = {"suite": name, "date": datetime.date.today().isoformat(),
                   "contract": wish.contract, **getattr(suites, name)()}
        except Absent as why:
            progress("")
            print(f"{name}: skipped: {why}", flush=True)
            continue
        progress("")
        wrong = bool(row["only_with"] or row["missing"] or not row["served"])
        bad |= wrong
        with open(suites.folder / "results.jsonl", "a", encoding="utf-8") as file:
            print(json.dumps(row), file=file)
        if wish.json:
            print(json.dumps(row), flush=True)
            continue
        print(f"{name} {row['version']}: {row['tests']} tests; failed without Limber "
              f"{row['failed_without']}, with it {row['failed_with']}, only with it "
              f"{len(row['only_with'])}; {row['served']} calls served", flush=True)
        for test in row["only_with"]:
            print(f"  only with Limber: {test}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
