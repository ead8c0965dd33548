# SPDX-License-Identifier: BSD-3-Clause
"""python -m limber: where Limber is installed, and scripts whose BLAS is Limber."""
import argparse
import sys

from . import _install


def main():
    parser = argparse.ArgumentParser(prog="python -m limber", description=__doc__,
                                     epilog="The command line is the program `limber`.")
    parser.add_argument("--prefix", action="store_true",
                        help="print the folder that Limber is installed in")
    commands = parser.add_subparsers(dest="command")
    run = commands.add_parser("run", help="run a script; its products are Limber's",
                              description="Run a script in a new process whose BLAS calls of "
                              "level 3 are computed by Limber to a contract.")
    run.add_argument("--contract", help="native, reproducible, bits=N, correct, fast; otherwise "
                     "that of LIMBER_CONTRACT or LIMBER_CONFIG")
    run.add_argument("script")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own")
    chosen = parser.parse_args()
    if chosen.command == "run":
        return _install.run(chosen.contract, chosen.script, chosen.arguments)
    if not chosen.prefix:
        parser.error("say --prefix or run")
    print(_install.prefix())
    return 0


if __name__ == "__main__":
    sys.exit(main())
