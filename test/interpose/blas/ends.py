# SPDX-License-Identifier: BSD-3-Clause
"""Workers of multiprocessing, and reports of programs that end in any way.

    ends.py work METHOD CHILDREN    each child, started by METHOD, makes a call of its own shape
    ends.py reports FILE            calls of each report: FILE, then other processes'"""
import glob
import json
import multiprocessing
import os
import sys

import numpy


def work(i):
    """One product of its own size."""
    a = numpy.ones((40 + i, 40))
    a @ numpy.ones((40, 40 + i))


def start(method, children):
    """Computes in this process, in children and in the workers of a pool."""
    context = multiprocessing.get_context(method)
    work(0)
    workers = [context.Process(target=work, args=(i + 1,)) for i in range(int(children))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(worker.exitcode == 0 for worker in workers)
    with context.Pool(1) as pool:
        pool.map(work, [20, 21])


def reports(path):
    """Checks that each report is complete and has no call of another process."""
    files = [path] + sorted(glob.glob(path + ".*"))
    shapes = []
    for name in files:
        with open(name, encoding="utf-8") as file:
            report = json.load(file)
        assert name == path or name == f"{path}.{report['pid']}", (name, report["pid"])
        products = [call for call in report["calls"] if "gemm" in call["routine"]]
        shapes.append("+".join(str(call["m"]) for call in products) or "none")
        # a pool terminates its workers by SIGTERM
        assert report["complete"] or "61" in shapes[-1], name
        calls = sum(call["calls"] for call in report["calls"])
        assert calls == report["served"]["calls"] + report["handed_on"]["calls"], name
    print(shapes[0], *sorted(shapes[1:]))


if __name__ == "__main__":
    if sys.argv[1] == "work":
        start(*sys.argv[2:])
    elif sys.argv[1] == "os._exit":
        work(0)
        os._exit(7)
    else:
        reports(*sys.argv[2:])
