# SPDX-License-Identifier: BSD-3-Clause
"""Locates the files that the package installed, and starts programs with them."""
import ctypes
import os
import subprocess
import sys
import tempfile

from ._cuda import name_libraries, search_path
from ._library import PREFIX, lib


def prefix() -> str:
    """The folder that Limber is installed in: for CMAKE_PREFIX_PATH."""
    if not PREFIX:
        raise FileNotFoundError("this package was not installed with headers and a command line: "
                                "it runs from its sources (pip install . there installs it)")
    return PREFIX


def get_include() -> str:
    """The folder of the headers: limber/limber.h and others."""
    return os.path.join(prefix(), "include")


def get_cmake_dir() -> str:
    """The folder of limberConfig.cmake: limber_DIR, or what find_package(limber PATHS) takes."""
    prefix()
    return os.path.join(_libdir(), "cmake", "limber")


def _libdir():
    """The folder of the library in use."""
    return os.path.dirname(lib._name)


def _library(name):
    """The file of one of Limber's other libraries, installed or in a build folder; where there is
    none, its place in an installation."""
    places = [os.path.join(_libdir(), folder, name)
              for folder in ("", "limber", "tools/interpose/blas", "tools/interpose/lapack")]
    installed = places[0] if name == "liblimber_blas.so" else places[1]
    return next((place for place in places if os.path.exists(place)), installed)


def _settings(preload):
    """The library's verdict on the settings: 1 valid, 0 none, -1 invalid.  Messages that the
    started process would repeat are suppressed."""
    sys.stderr.flush()
    before = os.dup(2)
    with tempfile.TemporaryFile() as messages:
        os.dup2(messages.fileno(), 2)
        try:
            settings = ctypes.CDLL(preload).limber_blas_check_settings()
        except OSError as error:
            settings = -1
            messages.write(f"{error}\n".encode())
            messages.flush()
        finally:
            os.dup2(before, 2)
            os.close(before)
        if settings != 1:
            messages.seek(0)
            sys.stderr.write(messages.read().decode(errors="replace"))
    return settings


def _options():
    """The options of this process's interpreter, up to -m or the script."""
    given = getattr(sys, "orig_argv", None)     # Python 3.10
    if given is None:
        return subprocess._args_from_interpreter_flags()    # as multiprocessing does
    options, rest = [], iter(given[1:])
    for word in rest:
        if word == "--check-hash-based-pycs":
            options += [word, next(rest)]
        elif word.startswith("--"):
            options.append(word)
        elif word[:1] != "-" or word == "-":
            break
        else:   # letters, some of which take an argument
            place = next((i for i, letter in enumerate(word) if letter in "cmWX"), None)
            if place and word[place] in "cm":
                return options + ([word[:place]] if place > 1 else [])
            options.append(word)
            if place == len(word) - 1:
                options.append(next(rest))
    return options


def _lapack(contract):
    """Libraries that replace a LAPACK under contracts that apply to it, too."""
    if contract not in ("reproducible", "correct"):
        return []
    files = [_library(f"liblimber_lapack{width}.so") for width in (32, 64)]
    found = [file for file in files if os.path.exists(file)]
    if not found:
        print("limber: built without a LAPACK; factorisations and eigenvalues stay with the "
              "program's own, and their bits may differ on another CPU", file=sys.stderr)
    return found


def _start(numpy, invariant):
    """Has processes that are started install limber.numpy (unless None), with further words, and
    limber.torch.batch_invariant."""
    if sys.flags.ignore_environment or sys.flags.no_site:
        print("limber: NumPy and PyTorch keep their own loops under the options -E, -I and -S",
              file=sys.stderr)
        return
    if numpy is not None:
        file = _library("liblimber_numpy.so")
        if os.path.exists(file):
            os.environ["LIMBER_NUMPY"] = ",".join([file, *numpy])
        else:
            print("limber: built without loops for NumPy, which keeps its own", file=sys.stderr)
    if invariant:
        os.environ["LIMBER_TORCH"] = "batch_invariant"
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_start")
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, before] if before else [folder])


def run(contract, arguments, numpy=(), scheme=None, invariant=False):
    """Replaces this process by `python` with these arguments, liblimber_blas preloaded and
    NumPy's loops replaced; returns an exit status if that is not possible.  numpy: the further
    words of LIMBER_NUMPY; None leaves NumPy alone.  invariant: PyTorch's rows become independent of
    their batch."""
    if invariant and contract is None and not {"LIMBER_CONTRACT", "LIMBER_CONFIG"} & {*os.environ}:
        contract = "reproducible"
    for name in "LIMBER_NUMPY", "LIMBER_TORCH":     # of a run around this one
        os.environ.pop(name, None)
    if contract is not None:
        os.environ["LIMBER_CONTRACT"] = contract
    if scheme is not None:
        os.environ["LIMBER_SCHEME"] = scheme
    preload = _library("liblimber_blas.so")
    settings = _settings(preload)
    preload = ":".join([preload, *_lapack(os.environ.get("LIMBER_CONTRACT"))])
    if settings == 1 and set(_libdir()) & set(": "):
        print(f"{_libdir()}: LD_PRELOAD takes no name with a space or a colon", file=sys.stderr)
        settings = -1
    if settings == 0:
        print("no contract: say --contract CONTRACT, or set LIMBER_CONTRACT or LIMBER_CONFIG",
              file=sys.stderr)
    if settings != 1:       # for -1 the library has printed why
        if os.path.basename(arguments[0]) == "_watch.py":   # of `same`
            arguments = arguments[3:]
        print(f"{' '.join(arguments[:2 if arguments[0] in ('-m', '-c') else 1])} was not started",
              file=sys.stderr)
        return 2
    before = os.environ.get("LD_PRELOAD")
    os.environ["LD_PRELOAD"] = f"{preload}:{before}" if before else preload
    if numpy is not None or invariant:
        _start(numpy, invariant)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *_options(), *arguments])


def command_line():
    """Replaces this process by the program `limber` with this process's arguments."""
    try:
        program = os.path.join(prefix(), "bin", "limber")
    except FileNotFoundError as error:
        sys.exit(f"limber: {error}")
    if not os.path.exists(program):
        sys.exit(f"{program}: there is none; this was built without the command line")
    path = os.environ.get("PATH", os.defpath)   # `limber bench` should start this python3
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + path
    words = sys.argv[1:]
    if words[:1] == ["gpu"]:
        os.environ["LD_LIBRARY_PATH"] = search_path()
    if words[:1] == ["gpu"] or any(word.endswith("cuda")
                                   for word in (*words, os.environ.get("LIMBER_BACKEND", ""))):
        name_libraries()
    os.execv(program, ["limber", *sys.argv[1:]])
