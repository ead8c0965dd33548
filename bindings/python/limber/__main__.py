# SPDX-License-Identifier: BSD-3-Clause
"""python -m limber: where Limber is installed, scripts whose BLAS is Limber, and whether a script
prints the same on other CPUs."""
import argparse
import sys

from . import _install, _same


def _words(words):
    """"-mMODULE" as two words, which end the options of `run`; argparse would read on."""
    for i, word in enumerate(words):
        if word[:2] in ("-m", "-c"):
            return [*words[:i], word[:2], *filter(None, [word[2:]]), *words[i + 1:]]
        if i > 0 and word[:1] != "-" and words[i - 1] not in ("--contract", "--scheme"):
            break
    return words


def main():
    """The command line `python -m limber`."""
    parser = argparse.ArgumentParser(prog="python -m limber", description=__doc__,
                                     epilog="The command line is the program `limber`.")
    parser.add_argument("--prefix", action="store_true",
                        help="print the folder that Limber is installed in")
    commands = parser.add_subparsers(dest="command")
    run = commands.add_parser("run", help="run a script; its products are Limber's",
                              usage="python -m limber run [--contract CONTRACT] "
                              "[--scheme SCHEME] [--batch-invariant] [--no-numpy | "
                              "--numpy-longdouble --numpy-dot] "
                              "(SCRIPT | -m MODULE | -c CODE) [ARGUMENT...]",
                              description="Run a script in a new process whose BLAS calls are "
                              "computed by Limber to a contract.  Under reproducible and correct "
                              "its LAPACK is one that has the same bits on every CPU.  NumPy's "
                              "products of integers, truth values and float16, which are no BLAS "
                              "calls, have the same values as without Limber, and take less time.")
    run.add_argument("--contract", help="native, reproducible, bits=N, correct, fast, "
                     "simulate=UNIT; otherwise that of LIMBER_CONTRACT or LIMBER_CONFIG")
    run.add_argument("--scheme", help="one of `limber formats`, which `fast` needs; otherwise that "
                     "of LIMBER_SCHEME")
    run.add_argument("--batch-invariant", action="store_true",
                     help="also make PyTorch's rows independent of their batch; the contract is "
                     "reproducible if none is named")
    run.add_argument("--same-everywhere", action="store_true",
                     help="the same: products of --batch-invariant follow one order of sums on "
                     "every CPU")
    run.add_argument("--no-numpy", action="store_true", help="leave NumPy's own loops alone")
    run.add_argument("--numpy-longdouble", action="store_true",
                     help="also round each element of a product of longdouble once")
    run.add_argument("--numpy-dot", action="store_true",
                     help="also serve np.dot, inner, tensordot and multi_dot of these types")
    check = commands.add_parser("same", help="run a script as on other CPUs; say what differs",
                                usage="python -m limber same [--contract CONTRACT] "
                                "(SCRIPT | -m MODULE | -c CODE) [ARGUMENT...]",
                                description="Run a script under several kernels of OpenBLAS, "
                                "NumPy, the C library and Limber, with one and two threads, and "
                                "compare what it prints and its variables.  Status 1: something "
                                "differs.",
                                epilog="example: python -m limber same --contract reproducible "
                                "fit.py")
    check.add_argument("--contract", help="as of `run` (default: the script runs without Limber)")
    for command in (run, check):
        command.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE",
                             help="run a module")
        command.add_argument("-c", dest="code", nargs=argparse.REMAINDER, metavar="CODE",
                             help="run this code")
        command.add_argument("script", nargs=argparse.REMAINDER,
                             help="the script, and its arguments")
    chosen = parser.parse_args(_words(sys.argv[1:]))
    if chosen.command in ("run", "same"):
        started = (["-m", *chosen.module, *chosen.script] if chosen.module else
                   ["-c", *chosen.code, *chosen.script] if chosen.code else chosen.script)
        if not started:
            (run if chosen.command == "run" else check).error(
                "say a script, -m MODULE or -c CODE")
        if chosen.command == "same":
            return _same.same(chosen.contract, started)
        further = [word for word, wanted in (("longdouble", chosen.numpy_longdouble),
                                             ("dot", chosen.numpy_dot)) if wanted]
        if chosen.no_numpy and further:
            run.error("--no-numpy excludes --numpy-longdouble and --numpy-dot")
        return _install.run(chosen.contract, started,
                            None if chosen.no_numpy else further, chosen.scheme,
                            chosen.batch_invariant or chosen.same_everywhere)
    if not chosen.prefix:
        parser.error("say --prefix, run or same")
    try:
        print(_install.prefix())
    except FileNotFoundError as error:
        print(f"python -m limber: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
