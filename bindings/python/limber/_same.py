# SPDX-License-Identifier: BSD-3-Clause
"""Tests whether a script prints the same on other CPUs: runs it with several of the code variants
that its libraries have, and with one and two threads."""
import difflib
import importlib.util
import json
import os
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


def _run(contract, arguments, settings, report):
    command = [sys.executable, "-m", "limber", "run"] if contract else [sys.executable]
    command += ["--contract", contract] if contract else []
    environment = {**os.environ, **settings, "LIMBER_REPORT": report, "LIMBER_CHECK": "0"}
    return subprocess.run([*command, *arguments], check=False, env=environment,
                          stdout=subprocess.PIPE)


def _left(report):
    """The routines that another library computed, with why."""
    try:
        with open(report, encoding="utf-8") as file:
            calls = json.load(file)["calls"]
    except (OSError, ValueError, KeyError):
        return []
    return sorted({f"{c['routine']}: {c['why_not']}" for c in calls if not c["served"]})


def same(contract, arguments):
    """Runs the script under each setting; 0 where all print the same, else 1."""
    first, differ, left = None, 0, []
    features = _features()
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, settings) in enumerate(_SETTINGS):
            if "NPY_DISABLE_CPU_FEATURES" in settings:
                if not features:
                    print(f"{name}: skipped, this NumPy or CPU has none")
                    continue
                settings = {"NPY_DISABLE_CPU_FEATURES": features}
            report = os.path.join(folder, f"{i}.json")
            made = _run(contract, arguments, settings, report)
            if made.returncode:
                print(f"{name}: the script ended with status {made.returncode}", file=sys.stderr)
                return 2
            printed = made.stdout.decode(errors="replace").splitlines()
            left = left or _left(report)
            if first is None:
                first = printed
                print(f"{name}: {len(first)} lines to compare with")
                continue
            lines = [x for x in difflib.unified_diff(first, printed, lineterm="", n=0)
                     if x[:1] in "+-" and x[:3] not in ("+++", "---")]
            differ += bool(lines)
            print(f"{name}: {'differs' if lines else 'the same'}")
            for line in lines[:6]:
                print(f"    {line}")
    if left:
        print("Another library computed:")
        for line in left[:10]:
            print(f"    {line}")
    print(f"{differ} of the runs differ" if differ else
          "The script prints the same under all of them.")
    return 1 if differ else 0
