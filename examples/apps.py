# SPDX-License-Identifier: BSD-3-Clause
"""Runs the applications of this folder beside each other, on a plain BLAS and under contracts.

    python apps.py                                  # all of them: minutes
    python apps.py --quick --apps lu,components     # some, in small sizes
    python apps.py --pictures FOLDER --json         # with the pictures of docs/applications.md
    python apps.py --figure 9 --pictures FOLDER     # figure 9 of Ape (or 13)

Each program runs with --json in a process of its own.  This file computes medians of the times, the
share of products, and speedups over a plain BLAS, and prints one table for each program.  If a
program lacks data or a package, the table says so.  `limber bench apps` runs this file."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import NamedTuple, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
CIRCUITS = ("dnn_n8", "hhl_n7", "ising_n10", "multiplier_n15", "qaoa_n6", "qft_n18", "qpe_n9",
            "sat_n11")
SKIPPED = 77        # exit status of a program whose data or packages are missing
START = time.perf_counter()


class App(NamedTuple):
    """An application.  Field `by` of each row that a program prints names what computed products.

    program         its path in this folder
    accuracy        the field of rows that holds its measure of accuracy, and what that measures
    base            `by` of the row that others are compared to, or a dictionary {by: that of base}
    series          {by: contract} of the rows that are in the picture of speeds
    commands        the arguments of each process
    full, quick     arguments for all processes, without and with --quick
    needs           what the program needs: torch, and folders in --data
    seconds         the field of rows that holds the time
    picture         a file, and the index of the command that draws it
    repeats         whether the program has the option --runs
    once            whether one run is enough, since times are not of interest"""
    name: str
    program: str
    what: str
    accuracy: tuple
    base: object
    series: dict
    commands: tuple = ((),)
    full: tuple = ()
    quick: tuple = ()
    needs: str = ""
    seconds: str = "seconds"
    picture: Optional[tuple] = None
    repeats: bool = False
    once: bool = False


TYPES = ("fp32-f", "fp32-b", "mixed")           # of Ape, beside FP32
LIMBS = {name: name for name in TYPES}
DIGITS = {"exact": "blas f64", "blas f64": "blas f64", "blas f32": "blas f32",
          **{name: "blas f32" for name in TYPES}}
BLAS = (("--blas", "f64"), ("--blas", "f32"), (), *(("--scheme", name) for name in TYPES))
FORMATS = ("--formats", "f64,correct,f32,fp32-f,fp32-b,mixed,f16")
APPS = [
    App("components", "digits/components.py", "principal components of digits",
        ("error", "error of the covariance, of its largest element"), DIGITS,
        {"exact": "exact", **LIMBS}, BLAS, quick=("--count", "1000"), needs="mnist",
        picture=("components.png", 2)),
    App("neighbours", "digits/neighbours.py", "nearest neighbours of digits",
        ("others", "images with other neighbours than the exact ones"), DIGITS,
        {"exact": "exact", **LIMBS}, BLAS, quick=("--count", "1000"), needs="mnist"),
    App("clusters", "digits/clusters.py", "clusters of digits",
        ("others", "images in other clusters than the exact ones"), DIGITS,
        {"exact": "exact", **LIMBS}, BLAS, quick=("--count", "1000"), needs="mnist",
        picture=("centres.png", 2)),
    App("circuits", "circuits/circuit.py", "quantum circuits",
        ("largest_error", "largest error of an amplitude"),
        {"f64": "blas f64", "correct": "blas f64", "f32": "blas f32", "f16": "blas f32", **DIGITS},
        {"f64": "native", "correct": "correct", "f32": "native, FP32", **LIMBS},
        (("--blas", "f64"), ("--blas", "f32"), FORMATS), needs="qasm",
        picture=("circuits.svg", 2)),
    App("lu", "lu/lu.py", "a dense system, as HPL solves it", ("hpl", "HPL's measure, below 16"),
        "blas", {"native": "native", "correct": "correct", "int8": "bits=53"},
        full=("--n", "2000"), quick=("--n", "300")),
    App("encoder", "encoder/encoder.py", "sentences by a BERT encoder",
        ("distance", "distance of embeddings from FP64"), "torch",
        {"native": "native", "correct": "correct"}, (("--by", "torch,native,correct"),),
        quick=("The cat sleeps.",), needs="torch", repeats=True),
    App("bert", "encoder/encoder.py", "an encoder of BERT-base's size, random weights",
        ("distance", "distance of embeddings from FP64"), "torch", LIMBS,
        (("--bert", "--by", ",".join(("torch", *TYPES))),),
        quick=("--length", "2", "A random sentence."), needs="torch", repeats=True),
    App("resnet", "resnet/resnet.py", "ResNet-18, forward and backward",
        ("error", "distance of outputs from FP64"), "torch",
        {"native": "native", "correct": "correct", "fp32-b": "fp32-b"},
        quick=("--size", "64", "--width", "8", "--batch", "2", "--classes", "10"), needs="torch",
        picture=("resnet.svg", 0), repeats=True),
    App("training", "training/accumulators.py", "training with accumulators of a few bits, a step",
        ("mean", "percent right"), "FP32", {}, full=("--bits", "3,4,5", "--seeds", "1"),
        quick=("--count", "1000", "--bits", "5", "--groups", "0", "--seeds", "1", "--epochs", "1"),
        needs="torch mnist", seconds="seconds_a_step"),
]
# figure 13: FP16's errors beside those of Ape's types, on a random circuit, too
AMPLITUDES = App(
    "amplitudes", "circuits/circuit.py", "amplitudes of quantum circuits",
    ("largest_relative_error", "largest relative error of an amplitude"), "f32", {},
    (("--formats", "f32,fp32-f,fp32-b,f16", "--against", "f64", "--relative"),),
    full=("qv_25", "--fuse", "6"), quick=("qv_8",), needs="qasm", picture=("ape-13.svg", 0),
    once=True)
# the applications of Ape's figures, and the series of their picture
FIGURES = {9: (("circuits", "components", "neighbours", "clusters", "bert"), TYPES),
           13: (("amplitudes",), ())}


class Missing(Exception):
    """The reason why an application is not run."""


class Failed(Exception):
    """The reason why an application ended without a result."""
    pass


# ---- processes ----------------------------------------------------------------------------------

def environment(threads):
    """Makes the environment variables of the programs.  PYTHONPATH gets the folder of the package
    limber if Python does not find it.  If `threads` is given, variables set the number of
    threads."""
    env = dict(os.environ)
    # where the package is, in the sources and in an installation
    folders = ("../bindings/python", "../../../limber/python")
    for folder in () if about(env, "import limber") is not None else folders:
        folder = os.path.normpath(os.path.join(HERE, folder))
        if os.path.isfile(os.path.join(folder, "limber", "__init__.py")):
            env["PYTHONPATH"] = os.pathsep.join(
                path for path in (env.get("PYTHONPATH"), folder) if path)
    if threads:
        for name in "LIMBER_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS":
            env[name] = str(threads)
    return env


def about(env, what):
    """Runs a line of Python in a new process; returns its output, or None if it fails."""
    done = subprocess.run([sys.executable, "-c", what], env=env, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def run(app, arguments, env):
    """Runs a program; returns the rows that it prints.  Raises Missing or Failed."""
    done = subprocess.run([sys.executable, os.path.join(HERE, app.program), *arguments, "--json"],
                          env=env, capture_output=True, text=True)
    said = done.stderr.strip().splitlines()
    if done.returncode == SKIPPED:
        raise Missing(said[-1] if said else "the program says no more")
    try:
        rows = [json.loads(line) for line in done.stdout.splitlines()]
    except ValueError as error:
        raise Failed(f"it printed no JSON: {error}") from None
    if done.returncode or not rows:
        raise Failed(said[-1] if said else f"it ended with {done.returncode}")
    return rows


def merged(app, rows):
    """Joins rows that have the same `by`, such as those of several circuits, and adds up their
    times.  Returns {by: (seconds, seconds in products or None, worst accuracy, scheme)}."""
    found = {}
    for row in rows:
        inside, worst = row.get("seconds_in_products"), row[app.accuracy[0]]
        now = (row[app.seconds], inside, worst, row.get("computed_by"))
        old = found.get(row["by"])
        if old:
            now = (old[0] + now[0], None if inside is None else old[1] + inside,
                   max(old[2], worst), now[3])
        found[row["by"]] = now
    return found


# ---- one application ----------------------------------------------------------------------------

def arguments_of(app, chosen):
    """Returns the arguments of each process.  Raises Missing if data or a package is missing."""
    for need in app.needs.split():
        if need == "torch":
            if not chosen.torch:
                raise Missing("PyTorch is not installed")
        elif not chosen.data or not os.path.isdir(os.path.join(chosen.data, need)):
            raise Missing(f"no folder {need} in --data or LIMBER_DATA")
    common = list(app.quick if chosen.quick else app.full)
    if "mnist" in app.needs:
        common += ["--data", chosen.data]
    if "qasm" in app.needs:
        names = ("qpe_n9",) if chosen.quick else CIRCUITS
        common += [os.path.join(chosen.data, "qasm", name + ".qasm") for name in names]
    if app.repeats:
        common += ["--runs", str(chosen.runs)]
    return [common + list(command) for command in app.commands]


def measure(app, chosen, env, show):
    """Runs an application; returns a dictionary with rows of medians, or with the reason why there
    are none.  show(text) shows progress."""
    made = {"name": app.name, "what": app.what, "accuracy": app.accuracy[1]}
    try:
        commands = arguments_of(app, chosen)
        # If this file repeats the runs, the first run of each command compiles kernels and does not
        # count.
        turns = range(1 if app.repeats or app.once or chosen.quick else chosen.runs + 1)
        runs = {}
        for turn in turns:      # commands take turns, so that other load affects all of them alike
            for i, arguments in enumerate(commands):
                show(f"{app.name}: run {turn + 1} of {len(turns)}, {i + 1} of {len(commands)}")
                arguments = list(arguments)
                if chosen.pictures and app.picture and app.picture[1] == i and turn == turns[-1]:
                    arguments += ["--picture", os.path.join(chosen.pictures, app.picture[0])]
                for by, row in merged(app, run(app, arguments, env)).items():
                    if turn > 0 or len(turns) == 1:
                        runs.setdefault(by, []).append(row)
    except Missing as why:
        return {**made, "skipped": str(why)}
    except Failed as why:
        return {**made, "failed": str(why)}
    medians = {by: (statistics.median(row[0] for row in rows),
                    None if rows[0][1] is None else statistics.median(row[1] for row in rows),
                    *rows[0][2:]) for by, rows in runs.items()}
    rows = [make_row(app, by, medians) for by in medians]
    rows.sort(key=lambda row: row["by"] != row["beside"])       # base rows come first
    return {**made, "rows": rows}


def make_row(app, by, medians):
    """Returns the row of the table for one way to compute the products, with its speed relative to
    the way that it is compared with."""
    seconds, inside, accuracy, computed_by = medians[by]
    base = app.base if isinstance(app.base, str) else app.base[by]
    beside = medians[base]
    return {"by": by, "computed_by": computed_by, "beside": base, "seconds": seconds,
            "seconds_in_products": inside, "speed": beside[0] / seconds,
            "speed_of_products": beside[1] / inside if inside and beside[1] else None,
            "accuracy": accuracy}


# ---- what is shown ------------------------------------------------------------------------------

def table(made):
    """Prints an application's table."""
    print(f"\n{made['name']}: {made['what']}; accuracy: {made['accuracy']}")
    for why in "skipped", "failed":
        if why in made:
            print(f"  {why}: {made[why]}")
    if "rows" not in made:
        return
    print(f"  {'by':28}  seconds  in products  share   speed  of products   beside    accuracy")
    for row in made["rows"]:
        inside = row["seconds_in_products"]
        share = "-" if inside is None else f"{100 * inside / row['seconds']:.0f}%"
        inside = "-" if inside is None else f"{inside:.4f}"
        products = row["speed_of_products"]
        products = "-" if products is None else f"{products:.2f}"
        by = row["by"]
        if row["computed_by"] not in (None, "-", "BLAS", "LAPACK", by):
            by += f" ({row['computed_by']})"
        print(f"  {by:28} {row['seconds']:8.4f}  {inside:>11}  {share:>5}  {row['speed']:6.2f}  "
              f"{products:>11}   {row['beside']:8}  {row['accuracy']:.3g}")


def draw(folder, found, figure=None):
    """Draws the speedup of products over the BLAS, or of whole programs if the times of products
    are not known."""
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    from limber.chart import chart
    shown = [made for made in found if "rows" in made and by_name(made["name"]).series]
    if not shown:
        return
    series = {}
    for i, made in enumerate(shown):
        contracts = by_name(made["name"]).series
        for row in made["rows"]:
            if row["by"] in contracts and (not figure or row["by"] in FIGURES[figure][1]):
                values = series.setdefault(contracts[row["by"]], [None] * len(shown))
                values[i] = row["speed_of_products"] or row["speed"]
    title = "Products of applications beside a plain BLAS" + (", FP32" if figure else "")
    chart(os.path.join(folder, f"ape-{figure}.svg" if figure else "apps.svg"), title,
          "application", "speed / the plain BLAS's", [made["name"] for made in shown], series,
          base=1)


def by_name(name):
    """Returns the application with this name."""
    return next(app for app in (*APPS, AMPLITUDES) if app.name == name)


def progress(text):
    """Shows the text as the line of progress if stderr is a terminal; "" removes the line."""
    if sys.stderr.isatty():
        print(f"\r{time.perf_counter() - START:5.0f} s  {text}\033[K" if text
              else "\r\033[K", end="", file=sys.stderr, flush=True)


def read_options():
    """Returns the options of the command line."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--apps", default=",".join(app.name for app in APPS), metavar="NAME,NAME",
                   help="some of " + ", ".join(app.name for app in APPS))
    p.add_argument("--figure", type=int, choices=FIGURES, help="what this figure of Ape has")
    p.add_argument("--data", default=os.environ.get("LIMBER_DATA"), metavar="FOLDER",
                   help="holds mnist/ and qasm/ (LIMBER_DATA)")
    p.add_argument("--quick", action="store_true", help="small sizes, each once")
    p.add_argument("--runs", type=int, default=3, help="runs that count, after one of each (3)")
    p.add_argument("--threads", type=int, metavar="N", help="of the BLAS, PyTorch and Limber")
    p.add_argument("--json", action="store_true", help="print one object")
    p.add_argument("--pictures", metavar="FOLDER", help="draw what the programs draw, and speeds")
    chosen = p.parse_args()
    chosen.apps = FIGURES[chosen.figure][0] if chosen.figure else chosen.apps.split(",")
    for name in chosen.apps:
        if not chosen.figure and name not in [app.name for app in APPS]:
            p.error(f"--apps: {name} is none of {', '.join(app.name for app in APPS)}")
    if not 1 <= chosen.runs <= 99:
        p.error("--runs: a number from 1 to 99")
    if chosen.threads is not None and not 1 <= chosen.threads <= 1024:
        p.error("--threads: a number from 1 to 1024")
    if chosen.pictures:
        try:
            os.makedirs(chosen.pictures, exist_ok=True)
        except OSError as error:
            p.error(f"--pictures: {chosen.pictures}: {error.strerror}")
    return p, chosen


def main():
    p, chosen = read_options()
    env = environment(chosen.threads)
    os.environ["PYTHONPATH"] = env.get("PYTHONPATH", "")
    version = about(env, "import limber; print(limber.__version__)")
    if version is None:
        p.error(f"{sys.executable} finds no package limber: pip install ., or PYTHONPATH and "
                "LIMBER_LIBRARY")
    numpy = about(env, "import numpy; print(numpy.__version__)")
    if numpy is None:
        p.error(f"{sys.executable} finds no NumPy, which these programs need")
    chosen.torch = about(env, "import torch; print(torch.__version__)")
    head = {"limber": version, "numpy": numpy, "torch": chosen.torch,
            "threads": chosen.threads or len(os.sched_getaffinity(0)),
            "runs": 1 if chosen.quick else chosen.runs, "quick": chosen.quick}
    if not chosen.json:
        print(f"Limber {version}, NumPy {numpy}, PyTorch {chosen.torch or 'missing'}; "
              f"threads: {head['threads']}; " +
              ("one run of each, in small sizes" if chosen.quick else
               f"medians of {chosen.runs} runs"))
    found = []
    for name in chosen.apps:
        found.append(measure(by_name(name), chosen, env, progress))
        progress("")
        if not chosen.json:
            table(found[-1])
            sys.stdout.flush()
    if chosen.json:
        print(json.dumps({**head, "applications": found}, indent=1))
    if chosen.pictures:
        draw(chosen.pictures, found, chosen.figure)
    return int(any("failed" in made for made in found))


if __name__ == "__main__":
    sys.exit(main())
