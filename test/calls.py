#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks, by the symbols of the library's objects, which rooms call which: jit may call backends,
passes and ir; backends may call ir; passes may call ir.  Research may call ir and passes, and only
jit/api may call research.

usage: calls.py SOURCE BUILD     the folders that CMake reads and builds in; NM: another nm

Prints each forbidden call with the caller, the callee and the symbol, each cycle of files of
several rooms, and the cycles inside jit, which are no fault.
Exit status: 0 no fault, 1 a fault, 2 usage, 77 there are no objects, or nm cannot read them."""

import os
import subprocess
import sys

OBJECTS = os.path.join('CMakeFiles', 'limber.dir')
BACKENDS = {'backends/interp', 'backends/llvm', 'backends/cuda'}
# [room or backend]: the others that its files may call
CALLS = {'ir': set(), 'passes': {'ir'}, 'research': {'ir', 'passes'},
         'backends': {'ir'} | BACKENDS,
         'jit': {'ir', 'passes', 'backends'} | BACKENDS}
CALLS.update({room: {'ir', 'backends'} for room in BACKENDS})


def skip(text):
    """Ends the program so that CTest counts it as skipped."""
    print('skipped: ' + text)
    sys.exit(77)


def room_of(path):
    """Returns a file's top folder, or its backend's folder."""
    parts = path.split('/')
    two = '/'.join(parts[:2])
    return two if two in BACKENDS else parts[0]


def may_call(caller, callee):
    """Whether the layers allow a function of one file to call one of the other."""
    here, there = room_of(caller), room_of(callee)
    return (here == there or there in CALLS[here] or
            (there == 'research' and caller.startswith('jit/api/')))


def objects_below(folder, source):
    """Lists the objects whose source exists.  Others belong to an earlier build."""
    found = []
    for room in ('ir', 'passes', 'backends', 'research', 'jit'):
        for at, _, names in os.walk(os.path.join(folder, room)):
            found += [os.path.relpath(os.path.join(at, name), folder)
                      for name in names if name.endswith('.o')]
    return sorted(path for path in found if os.path.exists(os.path.join(source, path[:-2])))


def symbols(folder, objects):
    """Reads by nm the file that defines each symbol, and (file, symbol) of each use."""
    nm = os.environ.get('NM') or 'nm'
    try:
        done = subprocess.run([nm, '-A', '-P', '-g', *objects], cwd=folder, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        skip('%s: %s' % (nm, error.strerror))
    if done.returncode or not done.stdout:
        skip('%s cannot read the objects: %s' % (nm, done.stderr.strip()[:200]))
    owner, used = {}, set()
    for line in done.stdout.splitlines():
        path, rest = line.split(': ', 1)
        name, kind = rest.split()[:2]
        path = path[:-2]
        if kind in 'Uwv':
            used.add((path, name))
        else:
            owner[name] = path
    return owner, used


def cycles(calls):
    """Finds, by Tarjan's algorithm without recursion, the strongly connected components of more
    than one file."""
    index, low, on, stack, found = {}, {}, set(), [], []
    for root in sorted(calls):
        if root in index:
            continue
        work = [(root, iter(sorted(calls[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            at, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    cut = stack.index(at)
                    if len(stack) - cut > 1:
                        found.append(sorted(stack[cut:]))
                    on.difference_update(stack[cut:])
                    del stack[cut:]
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                on.add(following)
                work.append((following, iter(sorted(calls.get(following, ())))))
            elif following in on:
                low[at] = min(low[at], index[following])
    return found


def main():
    if len(sys.argv) != 3:
        print(__doc__.split('\n\n')[1], file=sys.stderr)
        return 2
    folder = os.path.join(sys.argv[2], OBJECTS)
    objects = objects_below(folder, sys.argv[1])
    if not objects:
        skip('%s has no objects of the library' % sys.argv[2])
    owner, used = symbols(folder, objects)
    calls, bad = {}, 0
    for caller, name in sorted(used):
        # symbols of the C library and of other libraries are ignored
        callee = owner.get(name, caller)
        calls.setdefault(caller, set()).add(callee)
        if not may_call(caller, callee):
            print('%s calls %s: %s' % (caller, callee, name))
            bad = 1
    found = cycles(calls)
    for files in found:
        if len({room_of(path) for path in files}) > 1:
            print('a cycle of several rooms: ' + ' '.join(files))
            bad = 1
    inside = [files for files in found if {room_of(path) for path in files} == {'jit'}]
    print('%d files of jit are in cycles, %d of them in the largest' %
          (sum(map(len, inside)), max(map(len, inside), default=0)))
    for files in inside:
        print('    ' + ' '.join(files))
    if not bad:
        print('no call runs up or across')
    return bad


sys.exit(main())
