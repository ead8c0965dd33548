# SPDX-License-Identifier: BSD-3-Clause
"""Tests whether a script gives the same on other CPUs: runs it with several of the code variants
that its libraries have, and with one and two threads."""
import difflib
import importlib.util
import json
import linecache
import os
import pickle
import re
import subprocess
import sys
import tempfile

# These variables make OpenBLAS, NumPy and the C library choose their code for older CPUs.
_AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR X86_V4"
_SETTINGS = [
    ("as it is, 1 thread", {"OPENBLAS_NUM_THREADS": "1", "LIMBER_THREADS": "1"}),
    ("as it is, 2 threads", {"OPENBLAS_NUM_THREADS": "2", "LIMBER_THREADS": "2"}),
    ("OpenBLAS for Haswell, Limber without AVX-512",
     {"OPENBLAS_CORETYPE": "Haswell", "LIMBER_ISA": "avx2"}),
    ("OpenBLAS for Prescott", {"OPENBLAS_CORETYPE": "Prescott"}),
    ("NumPy without AVX-512", {"NPY_DISABLE_CPU_FEATURES": _AVX512}),
    ("the C library without AVX2 and FMA",
     {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2_Usable,-FMA_Usable,-AVX2,-FMA"}),
]


def _features():
    """The features of _AVX512 that this NumPy can switch off; a wrong name would be an error."""
    if importlib.util.find_spec("numpy") is None:
        return ""
    code = ("from numpy._core._multiarray_umath import __cpu_features__ as f, __cpu_dispatch__ as d"
            "\nprint(*[x for x in d if f.get(x)])")
    for module in ("numpy._core", "numpy.core"):
        child = subprocess.run([sys.executable, "-c", code.replace("numpy._core", module)],
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if child.returncode == 0:
            has = child.stdout.decode().split()
            return " ".join(x for x in _AVX512.split() if x in has)
    return ""


def _run(contract, arguments, settings, folder, steps=False):
    """Runs the script under these settings.  Returns its status, the lines that it printed, its
    variables, and the changes that each of its lines made."""
    record = os.path.join(folder, "record")
    watch = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_watch.py")
    command = [sys.executable, "-m", "limber", "run"] if contract else [sys.executable]
    command += ["--contract", contract] if contract else []
    environment = {**os.environ, **settings, "LIMBER_CHECK": "0",
                   "LIMBER_REPORT": os.path.join(folder, "report")}
    made = subprocess.run([*command, watch, record, str(int(steps)), *arguments], check=False,
                          env=environment, stdout=subprocess.PIPE)
    try:
        with open(record, "rb") as file:
            variables, changes = pickle.load(file)
        os.remove(record)
    except (OSError, EOFError):     # ended by os._exit or a signal
        variables, changes = {}, []
    return made.returncode, made.stdout.decode(errors="replace").splitlines(), variables, changes


def _differing(first, other):
    """Lines about the variables of two runs that differ."""
    lines = [f"{name} is a variable of only one run"
             for name in sorted(first.keys() ^ other.keys())]
    for name in sorted(first.keys() & other.keys()):
        (digest, kind, data), (digest_2, _, data_2) = first[name], other[name]
        if digest == digest_2:
            continue
        text = f"{name} ({kind}) differs"
        if data and data_2 and len(data[0]) == len(data_2[0]):
            a, b = (memoryview(x[0]).cast("B").cast(x[1]) for x in (data, data_2))
            text += f" in {sum(x != y for x, y in zip(a, b))} of {len(a)} numbers"
        lines.append(text)
    return lines


def _first_cause(first, other):
    """Text about the first line of the script that changed something differently in two runs."""
    for (file, line, changed), (file_2, line_2, changed_2) in zip(first, other):
        if (file, line) != (file_2, line_2):
            return f"The script goes another way at {os.path.basename(file)}:{line}."
        if changed != changed_2:
            names = [name for name in changed if changed[name] != changed_2.get(name)]
            source = linecache.getline(file, line).strip()
            return (f"First different at {os.path.basename(file)}:{line}: {', '.join(names)}" +
                    (f"\n    {source}" if source else ""))
    return None


def _left(report):
    """The routines that another library computed, with why."""
    try:
        with open(report, encoding="utf-8") as file:
            calls = json.load(file)["calls"]
    except (OSError, ValueError, KeyError):
        return []
    # limber64_dgemm_ is a call of dgemm_ by Limber's LAPACK
    return sorted({re.sub("^limber(32|64)_", "", f"{c['routine']}: {c['why_not']}")
                   for c in calls if not c["served"]})


def _say_cause(contract, arguments, settings, folder):
    """Runs the script twice more, line by line, and prints which line made the difference."""
    runs = [_run(contract, arguments, each, folder, steps=True)[3] for each in settings]
    cause = _first_cause(*runs)
    if cause:
        print(cause)


def _compare(first, made):
    """Prints what differs between two runs; False if nothing does."""
    lines = [x for x in difflib.unified_diff(first[1], made[1], lineterm="", n=0)
             if x[:1] in "+-" and x[:3] not in ("+++", "---")]
    names = _differing(first[2], made[2])
    print("differs" if lines or names else "the same")
    for line in (*lines[:6], *names[:10]):
        print(f"    {line}")
    return bool(lines or names)


def same(contract, arguments):
    """Runs the script under each setting; 0 where all print the same, else 1."""
    first, differ, left, other = None, 0, [], None
    features = _features()
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in _SETTINGS:
            if "NPY_DISABLE_CPU_FEATURES" in settings:
                if not features:
                    print(f"{name}: skipped, this NumPy or CPU has none")
                    continue
                settings = {"NPY_DISABLE_CPU_FEATURES": features}
            settings = {**_SETTINGS[0][1], **settings}
            made = _run(contract, arguments, settings, folder)
            if made[0]:
                print(f"{name}: the script ended with status {made[0]}", file=sys.stderr)
                return 2
            left = left or _left(os.path.join(folder, "report"))
            print(f"{name}: ", end="")
            if first is None:
                first = made
                print(f"{len(made[1])} lines, {len(made[2])} variables to compare with")
            elif _compare(first, made):
                differ += 1
                other = other or settings
        if differ:
            _say_cause(contract, arguments, (_SETTINGS[0][1], other), folder)
    if left:
        print("Another library computed:")
        for line in left[:10]:
            print(f"    {line}")
    print(f"{differ} of the runs differ" if differ else
          "The script gives the same under all of them.")
    return 1 if differ else 0
