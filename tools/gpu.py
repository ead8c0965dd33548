#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the steps of tools/gpu.sh on a machine with an NVIDIA GPU: one process for each step, with a
time limit, so that a kernel that hangs or a device that is lost costs one step.

FOLDER gets results.jsonl, a line for each step when it ends; log.txt, what the steps printed; and,
at the end or when this program is stopped, gpu.txt, a page to read, and gpu.json for
`limber report`.  Another run into the same folder adds to what is there.
Exit status: 0 all passed, 1 a step failed or time was too short, 2 usage, 77 no GPU.

example: python3 tools/gpu.py --plan --short build-gpu results
         python3 tools/gpu.py --steps attributes,smoke,fp64 build-gpu results"""

import argparse
import contextlib
import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BEGUN = time.monotonic()
LIMIT_OF_FILE = 16 << 20
LIMIT_OF_STEP = 1 << 20     # bytes of results.jsonl and of log.txt
LIMIT_OF_OUTPUT = 64 << 20  # bytes that a step may print
TAIL = 12000                # characters of a step's text that are kept; ncu prints 10,000
LINES_OF_STEP = 100         # most lines about a failed step in gpu.txt
SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROBE_SECONDS = 10
TRIAL_SECONDS = 5           # time limit of a trial call of a tool
NO_DEVICE = 77
TEST = re.compile(r'\s*\d+/\d+ Test +#\d+: (\S+) \.+ *\**(\S.*?) +([\d.]+) sec')
SHORT, LONG = 200, 580
STOPPING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]

SECTIONS = ['SpeedOfLight', 'LaunchStats', 'Occupancy', 'MemoryWorkloadAnalysis', 'WarpStateStats']
ATTRIBUTES = ('name,driver_version,vbios_version,clocks.sm,clocks.max.sm,clocks.mem,power.draw,'
              'power.limit,temperature.gpu,ecc.mode.current,mig.mode.current,persistence_mode')
# A tool of NVIDIA's works if its output has the first text, and not the second one.
TOOLS = {'nvidia-smi': ('driver_version', 'NVIDIA-SMI has failed'),
         'ncu': ('Section: ', '==ERROR=='),
         'compute-sanitizer': ('ERROR SUMMARY', 'Internal Sanitizer Error')}
# Options of the trial call that precedes a tool's first step.  nvidia-smi's step is its own trial.
TRIED = {'ncu': ['--launch-count', '1', '--section', 'LaunchStats'],
         'compute-sanitizer': ['--tool', 'memcheck']}


class Step:
    """A process. limit and expected are in seconds; expected is for a machine with an H200.  A step
    that takes the rest has all the time that is left, and at least its limit."""

    def __init__(self, name, command, limit, expected, short=True, **more):
        self.name, self.command, self.limit, self.expected = name, command, limit, expected
        self.short = short
        # a command that uses the step's kernels; None if an earlier step uses them
        self.program = more.get('program')
        self.timed = more.get('timed', False)       # times of kernels are wanted
        # name in TOOLS; the step is skipped if that tool does not work
        self.tool = more.get('tool')
        self.takes_rest = more.get('takes_rest', False)


class Stopped(Exception):
    """One of the signals STOPPING arrived.  The handler only notes the signal, and wait() raises
    this, so that processes are ended and results are written whenever a signal arrives."""
    seen = None


def stop(number, _):
    """Handles a signal that ends the run."""
    for each in STOPPING:
        signal.signal(each, signal.SIG_IGN)
    Stopped.seen = number


def usage(text):
    """Ends the program with a message about its command line."""
    print('gpu.py: ' + text, file=sys.stderr)
    sys.exit(2)


# ---- the plan ----------------------------------------------------------------------------------

def smoke_kinds(program):
    """Kinds of kernels that test/gpu_smoke tests, and the reason if there are none."""
    if not os.access(program, os.X_OK):
        return [], program + ' was not built'
    try:
        done = subprocess.run([program, '--list'], stdout=subprocess.PIPE, timeout=PROBE_SECONDS,
                              stderr=subprocess.DEVNULL, universal_newlines=True, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return [], '%s --list: %s' % (program, error)
    return done.stdout.split(), None


def kinds_of_source():
    """Reads the kinds from the source of test/gpu_smoke, for use before it is built."""
    with open(os.path.join(SOURCE, 'test', 'cuda', 'gpu_smoke.c')) as f:
        return re.findall(r'^    \{ "([a-z0-9-]+)", "', f.read(), re.M)


def rows(options, name, groups, size, limit, expected, compiling, short=True):
    """Makes a step of `limber gpu`.  compiling: seconds of NVRTC unless cubins are carried."""
    compiling = 0 if options.carried else compiling
    limit += compiling
    limber = os.path.join(options.build, 'tools', 'limber')
    command = [limber, 'gpu', '--json', '--rows', groups]
    if size:
        command += ['--sizes', '24' if options.tiny else str(size)]
    return Step(name, command + ['--seconds', str(limit - 8)], limit,
                expected + compiling, short, timed=True,
                program=command + ['--seconds', '1e6', '--once'])


def tool_steps(options):
    """Makes the steps of ncu, on the main kernels, and of compute-sanitizer."""
    limber = os.path.join(options.build, 'tools', 'limber')
    size, small = ('24', '24') if options.tiny else ('4096', '160')
    profile = ['ncu', '--launch-count', '1']
    for section in SECTIONS:
        profile += ['--section', section]
    steps = []
    for name, group, by, kernel in [('ncu-ozaki2', 'fp64', 'correct:ozaki2', 'limber_multiply'),
                                    ('ncu-fp32-f', 'fp32', 'fp32-f', 'limber_multiply'),
                                    ('ncu-scan', 'fp64', 'correct:ozaki2', 'limber_scan'),
                                    ('ncu-pack', 'fp64', 'correct:ozaki2', 'limber_pack'),
                                    ('ncu-reconstruct', 'fp64', 'correct:ozaki2',
                                     'limber_reconstruct')]:
        steps.append(Step(name, profile + ['--kernel-name', kernel, limber, 'gpu', '--rows', group,
                                           '--by', by, '--sizes', size, '--once'],
                          30, 6, False, tool='ncu'))
    for tool in ['memcheck', 'racecheck', 'synccheck']:
        program = [limber, 'gpu', '--rows', 'fp64,fp32,int', '--by', 'correct:ozaki2,fp32-f,exact',
                   '--sizes', small, '--once']
        steps.append(Step(tool, ['compute-sanitizer', '--tool', tool, '--error-exitcode', '1'] +
                          program, 45, 5, False, tool='compute-sanitizer',
                          program=program if tool == 'memcheck' else None))
    return steps


# Kinds of kernels in the short plan: those that its rows use, and one for each stage.
SHORT_SMOKE = frozenset('attributes scan pack int8-wide int8-clusters reconstruct fp32-f '
                        'fp32-f-inside fp16 f64-mma conv-forward graph'.split())


def make_plan(options):
    """Makes all steps in their order: short and informative ones first."""
    limber = os.path.join(options.build, 'tools', 'limber')
    smoke = os.path.join(options.build, 'test', 'gpu_smoke')
    kinds, no_smoke = (kinds_of_source(), None) if options.check else smoke_kinds(smoke)
    options.absent = {'smoke': no_smoke} if no_smoke else {}
    with_kernels = bool(options.carried or options.programs)    # which are carried later
    plan = [Step('attributes', [limber, 'gpu', '--probe'], 20, 2)]
    plan.append(Step('nvidia-smi', ['nvidia-smi', '--query-gpu=' + ATTRIBUTES, '--format=csv'],
                     10, 1, tool='nvidia-smi'))
    plan += [Step('smoke:' + kind, [smoke, kind], 20, 1 if options.carried else 3,
                  kind in SHORT_SMOKE, program=[smoke, kind]) for kind in kinds]
    plan += [rows(options, 'fp64-4096', 'fp64', 4096, 45, 8, 25),
             rows(options, 'fp32-4096', 'fp32', 4096, 45, 10, 12),
             rows(options, 'int8-4096', 'int', 4096, 30, 5, 5),
             rows(options, 'units-4096', 'units', 4096, 30, 8, 4),
             rows(options, 'fp64-8192', 'fp64', 8192, 45, 15, 20, with_kernels),
             rows(options, 'fp32-8192', 'fp32', 8192, 30, 12, 6, with_kernels),
             rows(options, 'int8-8192', 'int', 8192, 30, 5, 2, False),
             rows(options, 'units-8192', 'units', 8192, 30, 7, 2, False),
             rows(options, 'fp64-2048', 'fp64', 2048, 30, 8, 15, False),
             rows(options, 'fp32-2048', 'fp32', 2048, 30, 8, 6, False),
             rows(options, 'int8-2048', 'int', '2048,1024', 30, 6, 2, False),
             rows(options, 'units-2048', 'units', '2048,1024', 30, 6, 2, False),
             rows(options, 'fp64-1024', 'fp64', 1024, 30, 7, 20, False),
             rows(options, 'fp32-1024', 'fp32', 1024, 30, 6, 6, False),
             rows(options, 'quad-4096', 'quad', 4096, 40, 7, 5, False)]
    if not options.tiny:
        plan += [rows(options, 'conv', 'conv', None, 60, 30, 12, False),
                 rows(options, 'small', 'small', None, 40, 12, 6, False)]
        # With eight images, sizes of C are in the same classes (passes/request.c) as with 64.
        plan[-2].program += ['--batch', '8']
    plan += tool_steps(options)
    if not options.check and not os.path.exists(os.path.join(options.build,
                                                             'CTestTestfile.cmake')):
        options.absent['tests'] = 'tests were not built: cmocka or MPFR is not there'
    else:
        plan.append(Step('tests', ['ctest', '--test-dir', options.build, '-L', '^gpu$', '-j',
                                   str(max(8, os.cpu_count() or 1)),
                                   '--timeout', '90' if options.carried else '300',
                                   '--output-on-failure'],
                         60, 100, False, takes_rest=True))
    return plan


def chosen(plan, options):
    """Picks the steps of --steps by their names, or by the part before ":" or "-"."""
    if not options.steps:
        return [step for step in plan if step.short or not options.short]
    words, used = options.steps.split(','), set()
    steps = []
    for step in plan:
        for word in words:
            if word in (step.name, re.split('[-:]', step.name)[0]):
                used.add(word)
                if step not in steps:
                    steps.append(step)
    for word in words:
        if word in options.absent:
            usage('%s: %s' % (word, options.absent[word]))
        if word not in used:
            usage('no step is called "%s"; --list-steps lists them' % word)
    return steps


def set_limits(steps, wishes):
    """Applies --limit STEP=S."""
    for wish in wishes:
        name, _, seconds = wish.partition('=')
        named = [step for step in steps if step.name == name]
        try:
            limit = float(seconds)
        except ValueError:
            limit = 0
        if not named or not limit > 0:
            usage('--limit %s: it takes STEP=S, with a step of --list-steps and S above 0' % wish)
        named[0].limit, named[0].takes_rest = limit, False


def print_plan(steps, used, deadline):
    """Prints when each step begins, and whether its time limit then fits in the time left."""
    at, late = used, []
    print('%-16s %8s %8s %8s' % ('step', 'begins', 'expected', 'limit'))
    for step in steps:
        limit = max(step.limit, deadline - at) if step.takes_rest else step.limit
        print('%-16s %8g %8g %8g' % (step.name, at, step.expected, limit))
        if at + step.limit > deadline:
            late.append(step.name)
        at += min(step.expected, limit) if step.takes_rest else step.expected
    print('%g s of %g s' % (at, deadline))
    if late or at > deadline:
        print('gpu.py: --deadline %g is too short for %s as expected' %
              (deadline, ', '.join(late) or 'all of it'), file=sys.stderr)
    return 2 if late or at > deadline else 0


# ---- processes ---------------------------------------------------------------------------------

def members(session):
    """Lists the live processes of a session.  Children cannot leave it by making a process
    group."""
    found = []
    for name in os.listdir('/proc'):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open('/proc/%s/stat' % name) as f:
                    words = f.read().rsplit(')', 1)[1].split()
                if int(words[3]) == session and words[0] != 'Z':
                    found.append(int(name))
    return found


def kill_all(process):
    """Kills a session.  A process that hangs in the driver may need long to end, so the wait stops
    after five seconds."""
    until = time.monotonic() + 5
    while members(process.pid) and time.monotonic() < until:
        for pid in members(process.pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    process.poll()


def read_text(f):
    """Reads a file's beginning, up to the size that a step may print."""
    f.seek(0)
    return f.read(4 * LIMIT_OF_STEP).decode('utf-8', 'replace')


def objects_of(text):
    """Splits a text into JSON objects (whole lines, or lines inside ctest's output) and the
    rest."""
    objects, rest = [], []
    for line in text.splitlines():
        test = TEST.match(line)
        if test:
            objects.append({'test': test[1], 'outcome': test[2], 'seconds': float(test[3])})
        if line.startswith('{'):
            with contextlib.suppress(ValueError):
                objects.append(json.loads(line))
                continue
        rest.append(line)
    return objects, '\n'.join(rest)


def without_so_far(objects):
    """Removes the "so_far" objects that `limber gpu` printed of calls before their rows.  If there
    is no row, since a call hung, the object becomes the row."""
    def call(o):
        """What tells one row from others."""
        return [o.get(x) for x in ('group', 'work', 'data', 'm', 'n', 'k', 'by')]
    rows_of = [call(o) for o in objects if 'state' in o]
    return [dict(o, state=o['so_far'], why=o.get('why', 'first calls only')) if 'so_far' in o else o
            for o in objects if 'so_far' not in o or call(o) not in rows_of]


class TooMuch(Exception):
    """A process printed too much; it would fill the disk before its time is up."""


def wait(process, limit, files):
    """Waits until the process ends.  Raises Stopped, TooMuch or, after `limit` seconds,
    TimeoutExpired."""
    until = time.monotonic() + limit
    while True:
        if Stopped.seen:
            raise Stopped
        try:
            return process.wait(max(min(0.1, until - time.monotonic()), 0))
        except subprocess.TimeoutExpired:
            if sum(os.fstat(f.fileno()).st_size for f in files) > LIMIT_OF_OUTPUT:
                raise TooMuch from None
            if time.monotonic() >= until:
                raise


def run(command, limit, environment):
    """Runs a process in its own session.  Returns an entry of results.jsonl and its output."""
    begun, process, stopped = time.monotonic(), None, False
    exit_status, timed_out, too_much = None, False, False
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       env=environment, start_new_session=True)
            exit_status = wait(process, limit, (out, err))
        except OSError as error:
            exit_status = 127
            err.write(str(error).encode())
        except subprocess.TimeoutExpired:
            timed_out = True
        except TooMuch:
            exit_status, too_much = -signal.SIGKILL, True
        except Stopped:
            stopped = True
        if process:
            kill_all(process)           # or children that a step left behind
        text, errors = read_text(out), read_text(err)
    if too_much:
        errors = '%s\nended: it printed more than %d MiB\n' % (errors[:TAIL],
                                                             LIMIT_OF_OUTPUT >> 20)
    objects, rest = objects_of(text)
    objects = without_so_far(objects)
    entry = {'command': command, 'seconds': round(time.monotonic() - begun, 3),
             'exit': exit_status, 'timed_out': timed_out}
    if objects:
        entry['stdout'] = objects
    if rest.strip():
        entry['text'] = rest[-TAIL:]
    if errors.strip() and exit_status != 0:
        entry['stderr'] = errors[-TAIL:]
    if stopped:
        entry['stopped'] = True
    return entry, text + errors


# ---- results -----------------------------------------------------------------------------------

class Results:
    """The files of results, to which each run appends.  A line with "run" begins a run."""

    def __init__(self, folder):
        path = os.path.join(folder, 'results.jsonl')
        self.folder, self.entries, self.earlier = folder, [], []
        with contextlib.suppress(FileNotFoundError), open(path) as f:
            self.earlier = objects_of(f.read())[0]
        self.file = open(path, 'a')
        self.log = open(os.path.join(folder, 'log.txt'), 'a')
        if self.file.tell() > LIMIT_OF_FILE // 2:
            usage('%s is full of results; name another folder' % folder)
        self.log_size = self.log.tell()
        self.title = {'run': 1 + sum('run' in e for e in self.earlier),
                      'begun': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime()),
                      'command': sys.argv}
        self.file.write(json.dumps(self.title) + '\n')

    def add(self, entry, log=''):
        """Writes a step's line to disk before it returns."""
        line = json.dumps(entry)
        if len(line) > LIMIT_OF_STEP or self.file.tell() + len(line) > LIMIT_OF_FILE - TAIL:
            entry = dict(entry, stdout=entry.get('stdout', [])[:20], shortened=True)
            line = json.dumps(entry)
        if self.file.tell() + len(line) < LIMIT_OF_FILE - 1:
            self.file.write(line + '\n')
            self.file.flush()
            os.fsync(self.file.fileno())
        self.entries.append(entry)
        text = '==== %s\n%s\n' % (entry['step'], log[-LIMIT_OF_STEP:])
        if log and self.log_size + 4 * len(text) < LIMIT_OF_FILE:
            self.log_size += 4 * len(text)
            self.log.write(text)
            self.log.flush()

    def close(self):
        self.file.close()
        self.log.close()
        write_page(self.folder, self.title, self.entries)
        latest = {e['step']: e for e in self.earlier + self.entries if 'stdout' in e}
        write_rows(self.folder, list(latest.values()))


def failed_objects(entry):
    """Returns the measurements of a step that are wrong or failed."""
    return [o for o in entry.get('stdout', [])
            if o.get('passed') is False or o.get('state') in ('WRONG', 'FAILED') or
            o.get('outcome', 'Passed') not in ('Passed', 'Skipped')]


def outcome(entry):
    """Returns how a step ended, in one word."""
    if 'skipped' in entry:
        return 'skipped'
    if entry.get('stopped'):
        return 'stopped'
    if entry['timed_out']:
        return 'TIMED OUT'
    if entry['exit'] == NO_DEVICE:
        return 'no device'
    if failed_objects(entry):
        return 'FAILED' if all(o.get('state') == 'FAILED' or 'test' in o or
                               o.get('stage') in ('compile', 'launch')
                               for o in failed_objects(entry)) else 'WRONG'
    return 'ok' if entry['exit'] == 0 else 'FAILED'


def is_failure(entry):
    """Whether a step has neither passed nor been skipped."""
    return outcome(entry) not in ('ok', 'skipped')


def compiled(entry):
    """Says how many kernels a step compiled."""
    return ', %d kernels compiled' % entry['compiled'] if entry.get('compiled') else ''


def detail(entry):
    """A line about the results of a step, or the reason why it has none."""
    if 'skipped' in entry:
        return entry['skipped']
    wrong = failed_objects(entry)
    if wrong:
        o = wrong[0]
        where = ', '.join(str(o[x]) for x in ('stage', 'run') if x in o)    # fields of gpu_smoke
        return '%d wrong or failed; first: %s %s' % (
            len(wrong), o.get('smoke') or o.get('test') or
            '%s, %s:' % (o.get('work'), o.get('by')), o.get('why') or o.get('outcome') or where)
    states = [o['state'] for o in entry.get('stdout', []) if 'state' in o]
    if states and entry['exit'] == 0:
        return '%d rows, %d skipped%s' % (len(states), states.count('skipped'), compiled(entry))
    tests = [o['outcome'] for o in entry.get('stdout', []) if 'test' in o]
    if tests and entry['exit'] == 0:
        return '%d tests, %d skipped%s' % (len(tests), tests.count('Skipped'), compiled(entry))
    text = (entry.get('stderr') or entry.get('text') or '').strip().splitlines()
    last = text[-1].strip() if text and outcome(entry) != 'ok' else compiled(entry)[2:]
    if entry['exit'] is not None and entry['exit'] < 0 and not last.startswith('ended: '):
        return ('died of signal %d; last: %s' % (-entry['exit'], last)).removesuffix('; last: ')
    return last


def number(x, form):
    """A number as text; "" if there is none."""
    return form % x if isinstance(x, (int, float)) else ''


def row_lines(row):
    """Returns the text lines for one measured row."""
    work = ', '.join(w for w in (row.get('work'), row.get('data')) if w)
    size = 'x'.join(str(row[x]) for x in 'mnk' if x in row)
    if row.get('m') == row.get('n') == row.get('k'):
        size = str(row.get('n', ''))
    head = '%-42s %-16s %-28s ' % (work[:42], size, row.get('by', ''))
    if 'median' not in row:
        return [head + ': '.join(x for x in (row['state'], row.get('why')) if x)]
    ratio = '%.2f x %s' % (row['ratio'], row['ratio_to']) if row.get('ratio') else ''
    clocks = '%5s MHz %4.0f W  ' % (row['sm_mhz'], row['watts']) if 'sm_mhz' in row else ' '
    seconds = row['median'] * 1e3 if isinstance(row['median'], (int, float)) else None
    lines = [(head + '%10s %9s %-7s%s%s%s' % (
        number(seconds, '%.4f'), number(row.get('rate'), '%.4g'), row.get('unit', ''), clocks,
        ratio,
        '' if row['state'] == 'ok' and 'so_far' not in row else
        '  %s: %s' % (row['state'], row.get('why')))).rstrip()]
    if row.get('kernels'):
        lines.append('    ' + ', '.join(
            '%s %s ms%s' % (k['name'], number(k['seconds'] and k['seconds'] * 1e3, '%.4f'),
                            ' in %d' % k['launches'] if k['launches'] > 1 else '')
            for k in row['kernels']))
    return lines


def what_was_measured(entries):
    """The device descriptions that `limber gpu` printed, libraries by name, and rows."""
    all_objects = [o for e in entries for o in e.get('stdout', [])]
    heads = [o for o in all_objects if 'gpu' in o and 'limber' in o]
    return (heads, {p['name']: p for o in heads for p in o.get('peers', [])},
            [o for o in all_objects if 'group' in o and 'state' in o])


def report_of(entry):
    """Lines about a failed step: all that gpu_smoke printed, or what failed in another step."""
    smoke = entry['step'].startswith('smoke:')
    objects = entry.get('stdout', []) if smoke else failed_objects(entry)
    lines = [json.dumps(o) for o in objects[:LINES_OF_STEP]]
    if len(objects) > LINES_OF_STEP:
        lines.append('and %d more in results.jsonl' % (len(objects) - LINES_OF_STEP))
    return lines + [entry[part] for part in ('text', 'stderr') if part in entry]


def write_page(folder, title, entries):
    """Writes the page of a run to gpu.txt, before the pages of earlier runs."""
    heads, peers, rows_of = what_was_measured(entries)
    lines = ['run %d, begun %s: %s' % (title['run'], title['begun'], shlex.join(title['command']))]
    if heads:
        gpu = heads[0]['gpu']
        lines += ['%s, sm_%s, %s multiprocessors, driver for CUDA %d.%d; Limber %s' % (
            gpu['name'], gpu['capability'], gpu.get('multiprocessors'), gpu['driver'] // 1000,
            gpu['driver'] % 1000 // 10, heads[0]['limber'])]
        lines += ['clocks and power: ' + heads[0].get('clocks', '?')]
    lines += ['%s %s' % (p['name'], p['version'] if p['usable'] else 'not used: ' + p['why_not'])
              for p in peers.values()]
    lines += ['', '%-16s %-10s %8s' % ('step', '', 'seconds')]
    for e in entries:
        lines.append(('%-16s %-10s %8s  %s' % (e['step'], outcome(e),
                                               number(e.get('seconds'), '%.1f'),
                                               detail(e))).rstrip())
    for group in dict.fromkeys(o['group'] for o in rows_of):
        lines += ['', group]
        for row in rows_of:
            if row['group'] == group:
                lines += row_lines(row)
    for e in entries:
        if is_failure(e):
            lines += ['', '==== %s: %s' % (e['step'], outcome(e)), '$ ' + shlex.join(e['command'])]
            lines += report_of(e)
        elif e.get('text') and e['step'].startswith('ncu'):
            lines += ['', '==== ' + e['step'], e['text']]
    path, text = os.path.join(folder, 'gpu.txt'), '\n'.join(lines) + '\n'
    with contextlib.suppress(FileNotFoundError), open(path) as f:
        text += '\n\n' + f.read()
    with open(path, 'w') as f:
        f.write(text[:LIMIT_OF_FILE // 4])


def write_rows(folder, entries):
    """Writes device, libraries and rows of a run to gpu.json."""
    heads, peers, rows_of = what_was_measured(entries)
    if rows_of:
        page = {'limber': heads[-1]['limber'] if heads else '', 'gpu': heads[-1]['gpu'] if heads
                else {}, 'peers': list(peers.values()), 'rows': rows_of}
        text = json.dumps(page)
        with open(os.path.join(folder, 'gpu.json'), 'w') as f:
            f.write(text if len(text) < LIMIT_OF_FILE else '{}')


# ---- cubins compiled beforehand ---------------------------------------------------------------

def nvrtc_version():
    """The version of NVRTC on this machine; None if it is absent."""
    names = [os.environ.get('LIMBER_NVRTC'), 'libnvrtc.so.13', 'libnvrtc.so.12', 'libnvrtc.so']
    for name in names:
        with contextlib.suppress(OSError, AttributeError):
            major, minor = ctypes.c_int(), ctypes.c_int()
            if name and ctypes.CDLL(name).nvrtcVersion(ctypes.byref(major),
                                                       ctypes.byref(minor)) == 0:
                return '%d.%d' % (major.value, minor.value)
    return None


def attributes_of_device(numbers):
    """Attributes of the first device as strings, by CUdevice_attribute's numbers; None if there is
    no device."""
    with contextlib.suppress(OSError, AttributeError):
        cuda = ctypes.CDLL(os.environ.get('LIMBER_CUDA', 'libcuda.so.1'))
        device, values = ctypes.c_int(), [ctypes.c_int() for _ in numbers]
        if (cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0 and
                not any(cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device)
                        for number, value in zip(numbers, values))):
            return [str(value.value) for value in values]
    return None


def device_capability():
    """The compute capability of the first device, such as "90"."""
    return ''.join(attributes_of_device([75, 76]) or [])


def device_rates():
    """Multiprocessors, kHz, kHz of the memory and bits of its bus, as gpu.sh's --device takes
    them."""
    return ','.join(attributes_of_device([16, 13, 36, 37]) or [])


def ask(what):
    """Calls one of the functions above in a separate process, since libraries may hang or
    crash.  The result is then None, and the steps will report the failure."""
    with contextlib.suppress(subprocess.SubprocessError, IndexError):
        done = subprocess.run([sys.executable, os.path.abspath(__file__), '--ask', what.__name__],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, universal_newlines=True, check=True,
                              timeout=PROBE_SECONDS)
        return done.stdout.split()[-1]
    return None


def targets():
    """The capabilities for which Limber makes kernels, by backends/cuda/target.c."""
    with open(os.path.join(SOURCE, 'backends', 'cuda', 'target.c')) as f:
        return [10 * int(major) + int(minor)
                for major, minor in re.findall(r'^    \{ (\d+), (\d), "sm_', f.read(), re.M)]


def target_of(capability):
    """The capability for which Limber makes kernels on a device: the last one that is of the
    device's generation and not above it."""
    return max((c for c in targets() if c // 10 == capability // 10 and c <= capability),
               default=capability)


def check_architecture(name):
    """Refuses an architecture, such as 90a, for which Limber makes no kernels."""
    if name.rstrip('af') not in map(str, targets()):
        usage('--arch %s: there are kernels for %s only' %
              (name, ', '.join('sm_%d' % each for each in targets())))


def check_carried(folder):
    """Refuses carried kernels for another device, or of another NVRTC than the installed one.  The
    first line of a kernel's file is `limber-cubin 1 ARCHITECTURE NVRTC ...`.  Kernels for sm_120
    and sm_120f are for one device."""
    if not os.path.isdir(folder):
        usage('%s is not a folder' % folder)
    kernels = sorted(name for name in os.listdir(folder) if name.endswith('.cubin'))
    if not kernels:
        usage('%s has no kernels' % folder)
    found = {}      # number of an architecture, NVRTC's version: the architecture's name
    for name in kernels:
        with open(os.path.join(folder, name), 'rb') as f:
            words = f.readline(200).decode(errors='replace').split()
        if len(words) < 4 or words[0] != 'limber-cubin':
            usage('%s/%s is not a kernel' % (folder, name))
        found[words[2].removeprefix('sm_').rstrip('af'), words[3]] = words[2]
    if len(found) > 1:
        usage('%s has kernels of several kinds: %s' %
              (folder, ', '.join('%s by NVRTC %s' % (found[each], each[1])
                                 for each in sorted(found))))
    ((made, nvrtc), name), = found.items()
    capability, here = ask(device_capability), ask(nvrtc_version)
    if capability and made != str(target_of(int(capability))):
        usage('%s is for %s, and the device is sm_%s' % (folder, name, capability))
    if here and here != nvrtc:
        usage('%s was made by NVRTC %s, and here is %s' % (folder, nvrtc, here))
    check_rates(folder)


def check_rates(folder):
    """Says if kernels were collected for a device with other rates, on which plans may differ."""
    rates = None
    with contextlib.suppress(OSError), open(os.path.join(folder, 'rates')) as f:
        rates = f.read().strip()
    here = ask(device_rates) if rates else None
    if here and rates != here:
        print('gpu.py: %s was collected for --device %s, and here is %s: other kernels may be '
              'needed' % (folder, rates, here), file=sys.stderr)


# ---- running -----------------------------------------------------------------------------------

def tool_fault(tool, entry, log):
    """The reason for which a tool does not work; None if it works."""
    needed, complaint = TOOLS[tool]
    if entry['timed_out']:
        return '%s did not end within %.0f s' % (tool, entry['seconds'])
    if needed in log and complaint not in log:
        return None
    lines = [x for x in log.splitlines() if complaint in x] or log.strip().splitlines()[-1:]
    return '%s does not work here: %s' % (tool, ' '.join(lines).strip() or outcome(entry))


class Runner:
    """Runs the steps, and leaves out those for which there is no time, tool or device."""
    def __init__(self, options, results):
        self.options, self.results = options, results
        self.limber = os.path.join(options.build, 'tools', 'limber')
        self.suspect = False        # a step failed, so the device must be probed
        self.lost = None            # why no further step can use a device
        self.late = 0               # number of steps for which time was too short
        self.tools = {}             # name: the reason why the tool does not work, or None
        self.timed = None           # environment in which kernels are timed, once it has been tried

    def left(self):
        """Returns the seconds that are left until the deadline."""
        return self.options.deadline - self.options.used - (time.monotonic() - BEGUN)

    def run(self, command, limit, environment=os.environ):
        """Runs a process within the time that is left, and counts the kernels that it compiles."""
        named = environment.get('LIMBER_KEEP_CUBINS')
        with tempfile.TemporaryDirectory() as folder:
            folder = named or folder
            before = set(os.listdir(folder)) if os.path.isdir(folder) else set()
            entry, log = run(command, max(min(limit, self.left()), 1),
                             dict(environment, LIMBER_KEEP_CUBINS=folder))
            after = os.listdir(folder) if os.path.isdir(folder) else []
        count = sum(name.endswith('.cubin') for name in set(after) - before)
        return dict(entry, compiled=count) if count else entry, log

    def quietly(self, command, limit, environment=os.environ):
        """Runs a process that is no step, without writing a result."""
        entry, log = self.run(command, limit, environment)
        if entry.get('stopped'):
            raise Stopped
        return entry, log

    def timing_environment(self):
        """The environment of steps whose kernels are timed: a library is placed in front of the
        driver, under the driver's usual name.  If that fails, kernels are not timed."""
        library = os.path.join(os.path.abspath(self.options.build), 'tools', 'libtimed_cuda.so')
        environment = dict(os.environ)
        named = environment.get('LIMBER_CUDA')
        if named and '/' in named:
            self.folder = tempfile.TemporaryDirectory()
            os.symlink(os.path.abspath(named), os.path.join(self.folder.name, 'libcuda.so.1'))
            path = [self.folder.name, environment.get('LD_LIBRARY_PATH')]
            environment['LD_LIBRARY_PATH'] = ':'.join(p for p in path if p)
        environment['LIMBER_CUDA'] = library
        entry, _ = self.quietly([self.limber, 'gpu', '--probe'], PROBE_SECONDS, environment)
        if not is_failure(entry):
            return environment
        self.note({'step': 'kernels', 'skipped': 'single kernels are not timed: ' + detail(entry)})
        return dict(os.environ)

    def note(self, entry, log=''):
        """Stores a step's result and prints a line about it."""
        self.results.add(entry, log)
        print('%-16s %-10s %8s  %s' % (entry['step'], outcome(entry),
                                       number(entry.get('seconds'), '%.1f'), detail(entry)[:150]),
              flush=True)

    def skip(self, step, why):
        self.note({'step': step.name, 'skipped': why})

    def execute(self, name, command, limit, environment=os.environ, tool=None):
        """Runs a step's command and stores its result; returns the entry."""
        entry, log = self.run(command, limit, environment)
        entry = dict({'step': name}, **entry)
        if tool and not entry.get('stopped'):
            self.judge_tool(tool, entry, log)
        self.note(entry, log)
        if entry.get('stopped'):
            raise Stopped
        return entry

    def judge_tool(self, tool, entry, log):
        """Marks a tool as not working if it reports an error of its own, or did not end.  Its
        further steps are skipped, since they would say nothing about Limber."""
        why = tool_fault(tool, entry, log)
        if tool not in TRIED and why or TOOLS[tool][1] in log:
            entry['skipped'] = why
        if entry['timed_out'] or 'skipped' in entry:
            self.tools[tool] = why

    def device_answers(self):
        """True if the device answers one of two probes, which are separate processes."""
        for _ in range(2):
            if self.left() > 0 and not is_failure(self.execute(
                    'probe', [self.limber, 'gpu', '--probe'], PROBE_SECONDS)):
                return True
        return False

    def tool_works(self, tool):
        """True if a tool exists and works on a small product, which is tried once."""
        if tool in self.tools:
            return self.tools[tool] is None
        self.tools[tool] = None
        if not shutil.which(tool):
            self.tools[tool] = '%s is not installed' % tool
        elif tool in TRIED:
            program = [self.limber, 'gpu', '--rows', 'fp32', '--by', 'fp32-f', '--sizes',
                       '24' if self.options.tiny else '160', '--once']
            self.quietly(program, PROBE_SECONDS)    # the kernel is compiled without the tool
            entry, log = self.quietly([tool] + TRIED[tool] + program, TRIAL_SECONDS)
            self.tools[tool] = tool_fault(tool, entry, log)
        return self.tools[tool] is None

    def fits(self, step):
        """Whether the time left suffices for a step."""
        if self.left() >= step.limit:
            return True
        self.late += 1
        self.skip(step, 'its limit of %g s does not fit into the %.0f s that are left' %
                  (step.limit, max(self.left(), 0)))
        return False

    def one(self, step):
        """Runs one step, unless its device, tool or time is lacking."""
        if self.lost:
            return self.skip(step, self.lost)
        if not self.fits(step):
            return None
        if self.suspect and not self.device_answers():
            self.lost = 'the device does not answer any more'
            return self.skip(step, self.lost)
        self.suspect = False
        if step.tool and not self.tool_works(step.tool):
            return self.skip(step, self.tools[step.tool])
        if step.timed and self.timed is None:
            self.timed = self.timing_environment()
        if not self.fits(step):     # probes and trials may have taken the time
            return None
        entry = self.execute(step.name, step.command,
                             self.left() if step.takes_rest else step.limit,
                             self.timed if step.timed else os.environ, step.tool)
        self.suspect = is_failure(entry) or entry['timed_out']
        if step.name.startswith('smoke:') and any('CUDA_ERROR_' in o.get('error', '')
                                                  for o in entry.get('stdout', [])):
            self.execute(step.name + ':kernel', step.command, step.limit,
                         dict(os.environ, CUDA_LAUNCH_BLOCKING='1'))
        return entry

    def all(self, steps):
        """Runs the steps.  If there is no device at first, nothing is run.  A later step that finds
        no device has failed."""
        if steps[0].name == 'attributes':
            first = self.one(steps[0])
            steps = steps[1:]
        else:
            first = dict({'step': 'probe'}, **self.quietly([self.limber, 'gpu', '--probe'],
                                                           PROBE_SECONDS)[0])
            if is_failure(first):
                self.note(first)
                self.suspect = True
        if first and first['exit'] == NO_DEVICE:
            return NO_DEVICE
        if not self.options.steps:
            for name, why in self.options.absent.items():
                self.note({'step': name, 'skipped': why})
        for step in steps:
            self.one(step)
        if self.late:
            print('gpu.py: %d steps did not fit into %g s' % (self.late, self.options.deadline),
                  file=sys.stderr)
        return 1 if self.late or any(is_failure(e) for e in self.results.entries) else 0


def parse(arguments):
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, prog='gpu.py',
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('build', metavar='BUILD', nargs='?',
                        help='the folder where Limber was built')
    parser.add_argument('folder', metavar='FOLDER', nargs='?', help='where results go')
    parser.add_argument('--deadline', type=float, metavar='S',
                        help='seconds for everything (%d; with --short %d)' % (LONG, SHORT))
    parser.add_argument('--short', action='store_true', help='only the most telling steps')
    parser.add_argument('--steps', metavar='LIST', help='only these, such as smoke,fp64-4096,tests')
    parser.add_argument('--limit', action='append', default=[], metavar='STEP=S',
                        help='another limit of a step, in seconds; may be given again')
    parser.add_argument('--used', type=float, default=0, metavar='S',
                        help='seconds of the deadline that are gone already')
    parser.add_argument('--carried', metavar='FOLDER',
                        help='kernels that tools/gpu.sh --collect made, which must fit the device; '
                             'without BUILD they are only looked at')
    parser.add_argument('--list-steps', action='store_true', help='print the steps and end')
    parser.add_argument('--plan', action='store_true',
                        help='print when each step begins, what it takes and its limit, and end')
    parser.add_argument('--tiny', action='store_true',
                        help='small sizes, to rehearse all of it without a GPU')
    parser.add_argument('--check', action='store_true',
                        help='look at these options, print the deadline and the word "tests" if '
                             'these are among the steps, and end; nothing needs to be built')
    parser.add_argument('--programs', action='store_true',
                        help='print the commands that ask for the kernels of all steps but tests, '
                             'each behind the name of its step, and end')
    parser.add_argument('--check-architecture', metavar='NAME', help=argparse.SUPPRESS)
    parser.add_argument('--ask', choices=['device_capability', 'device_rates', 'nvrtc_version'],
                        help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.ask:
        print({'device_capability': device_capability, 'device_rates': device_rates,
               'nvrtc_version': nvrtc_version}[options.ask]() or '')
        sys.exit(0)
    if options.check_architecture:
        check_architecture(options.check_architecture)
        sys.exit(0)
    if options.carried:
        check_carried(options.carried)
        os.environ['LIMBER_CUBINS'] = os.path.abspath(options.carried)
    if options.check:
        options.build = options.build or '.'
    if not options.build:
        if options.carried:
            sys.exit(0)
        usage('BUILD is missing: the folder where Limber was built')
    if not os.path.isdir(options.build):
        usage('%s is not a folder' % options.build)
    if not options.check and not os.access(os.path.join(options.build, 'tools', 'limber'),
                                           os.X_OK):
        usage('%s has no tools/limber: nothing was built there' % options.build)
    if options.deadline is None:
        options.deadline = SHORT if options.short else LONG
    if not options.deadline > 0 or not options.used >= 0:
        usage('--deadline takes seconds above 0, and --used seconds')
    if not options.folder and not (options.list_steps or options.plan or options.check or
                                   options.programs):
        usage('FOLDER is missing: where results go')
    return options


def main():
    options = parse(sys.argv[1:])
    plan = make_plan(options)
    steps = chosen(plan, options)
    set_limits(steps, options.limit)
    if options.list_steps:
        print('\n'.join(step.name for step in steps))
        return 0
    if options.programs:        # the longest ones first
        for step in sorted(steps, key=lambda s: '8192' not in s.name):
            if step.program:
                print(step.name, shlex.join(step.program))
        return 0
    if options.plan:
        return print_plan(steps, options.used, options.deadline)
    least = min(step.limit for step in steps)
    longest = max(steps, key=lambda s: s.limit)
    if options.deadline < longest.limit:
        usage('--deadline %g is too short for %s, whose limit is %g s; --limit or --steps change '
              'that' % (options.deadline, longest.name, longest.limit))
    if options.check:
        print('%g%s' % (options.deadline, ' tests' * any(s.name == 'tests' for s in steps)))
        return 0
    if options.deadline - options.used < least:
        print('gpu.py: %g s of %g s were used by the build; that leaves no time for any step' %
              (options.used, options.deadline), file=sys.stderr)
        return 1
    try:
        os.makedirs(options.folder, exist_ok=True)
        results = Results(options.folder)
    except OSError as error:
        usage('%s: %s' % (options.folder, error.strerror))
    for each in STOPPING:
        if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN:   # nohup
            signal.signal(each, stop)
    status = 1
    try:
        status = Runner(options, results).all(steps)
    except Stopped:
        print('gpu.py: stopped; what there is stands in ' + options.folder, file=sys.stderr)
        status = 128 + Stopped.seen
    finally:
        results.close()
    return status


if __name__ == '__main__':
    sys.exit(main())
