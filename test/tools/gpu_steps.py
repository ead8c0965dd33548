# SPDX-License-Identifier: BSD-3-Clause
"""Rehearses tools/gpu.py with the stand-ins for libcuda and NVRTC, which hang, lose the device or
answer wrongly in one step.  Arguments: gpu.py, limber, and the files of both stand-ins and of
timed_cuda.  With gpu_smoke as one more argument, runs all steps once instead, without faults, by
real programs: a kernel for each group of rows, three kinds of gpu_smoke, and a test by ctest."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

RUNNER, LIMBER, CUDA, NVRTC, TIMED = (os.path.abspath(path) for path in sys.argv[1:6])
SMOKE = os.path.abspath(sys.argv[6]) if len(sys.argv) > 6 else None
WORK = tempfile.mkdtemp()
BUILD = os.path.join(WORK, 'build')
TOOLS = os.path.join(WORK, 'bin')
TIMED_HERE = os.path.join(BUILD, 'tools', 'libtimed_cuda.so')
bad = checks = 0

# Runs limber with one scheme only.  If FAULT_ROWS names the rows, limber runs in a child process
# with its own process group, in which the stand-in's variable FAULT is set; a line is written to
# FAULT_PIPE when the child begins.
LIMBER_SH = '''#!/bin/sh
case "$*" in
*--probe*) exec %(limber)s "$@" ;;
*"--rows fp64"*) by=correct:ozaki2 rows=fp64 ;;
*) by=native:native rows=fp32 ;;
esac
if [ "${FAULT_ROWS:-}" = $rows ]; then
    export "$FAULT"
    [ -z "${FAULT_PIPE:-}" ] || echo begun > "$FAULT_PIPE"
    %(python)s -c 'import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])' \
        %(limber)s "$@" --by $by $ROWS_OPTIONS &
    wait $!
    exit
fi
exec %(limber)s "$@" --by $by $ROWS_OPTIONS
'''
SMOKE_SH = '''#!/bin/sh
case $1 in
--list) printf 'first\\nsecond\\nthird\\n'; [ -z "${MANY:-}" ] || seq 4 "$MANY" ;;
"${FAULT_HANG:-}")
    echo '{"smoke": "'"$1"'", "part": 1}'
    exec sleep 1000 ;;
"${FAULT_SMOKE:-}")
    echo '{"smoke": "'"$1"'", "passed": false}'
    echo '{"group": "x", "gpu": 1, "row": 3, "got": "0x1p0", "wanted": "0x1p1"}'
    sleep 1000 > /dev/null 2>&1 &
    exit 1 ;;
"${FAULT_DIES:-}") kill -SEGV $$ ;;
"${FAULT_ENDLESS:-}") yes "no end" ;;
"${FAULT_COMPILE:-}")
    echo '{"smoke": "'"$1"'", "passed": false, "stage": "compile", "run": "all"}'
    exit 1 ;;
"${FAULT_LAUNCH:-}")
    echo '{"error": "'"${CUDA_LAUNCH_BLOCKING:+kernel: }"'CUDA_ERROR_LAUNCH_FAILED"}'
    echo '{"smoke": "'"$1"'", "passed": false, "stage": "launch", "run": "all"}'
    exit 1 ;;
*)
    echo > "$LIMBER_KEEP_CUBINS/sm_90a-$1.cubin"
    echo '{"smoke": "'"$1"'", "passed": true, "cubins": "'"${LIMBER_CUBINS:-}"'"}' ;;
esac
'''
NCU_SH = '''#!/bin/sh
[ -z "${NCU_HANGS:-}" ] || exec sleep 1000
[ -n "${NCU_WORKS:-}" ] || echo "==ERROR== ERR_NVGPUCTRPERM - no permission for counters"
case "$*" in *limber_pack*) echo "no kernel was profiled"; exit 3 ;; *) echo "Section: $*" ;; esac
'''
SANITIZER_SH = '''#!/bin/sh
case $2 in
memcheck) echo "========= ERROR SUMMARY: 3 errors"; exit 1 ;;
*) echo "========= ERROR SUMMARY: 0 errors" ;;
esac
'''
CTEST_SH = '''#!/bin/sh
cat << 'LINES'
    Start 1: test_cuda_gpu
1/3 Test #1: test_cuda_gpu ....................   Passed    1.20 sec
2/3 Test #2: test_cuda_conv_gpu ...............***Failed    0.10 sec
3/3 Test #3: test_cuda_mx_gpu .................***Skipped   0.02 sec
LINES
exit 8
'''

# Programs of the run of all steps.  Options of NVIDIA's tools end where limber's command begins.
ONE_KERNEL_SH = '''#!/bin/sh
case "$*" in
*--by* | *--probe*) exec %(limber)s "$@" ;;
*"--rows fp64"*) by=correct:ozaki2 ;;
*"--rows fp32"*) by=fp32-f ;;
*"--rows int"*) by=exact ;;
*) by=native ;;
esac
exec %(limber)s "$@" --by $by --once
'''
THREE_KINDS_SH = '''#!/bin/sh
[ "$1" != --list ] || { %(smoke)s --list | grep -xE 'attributes|scan|int8-step'; exit; }
exec %(smoke)s "$@"
'''
TOOL_SH = '''#!/bin/sh
case $1 in --query-gpu*) echo driver_version; exit ;; esac
until [ "${1##*/}" = limber ]; do shift; done
"$@" && echo "Section: a" && echo "ERROR SUMMARY: 0 errors"
'''


def check(good, what, more=''):
    """Counts a check, and prints it if it fails."""
    global bad, checks
    checks += 1
    if not good:
        bad += 1
        print('FAILED: %s\n%s' % (what, more))


def script(path, text):
    """Writes an executable file."""
    with open(path, 'w') as f:
        f.write(text)
    os.chmod(path, 0o755)


def environment(**more):
    """Returns this environment without the library's variables, and with these."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(('LIMBER_', 'SIMT_')) or name == 'SIMT_CACHE'}
    kept.update(LIMBER_CUDA=CUDA, LIMBER_NVRTC=NVRTC, LIMBER_CUBLAS='none',
                LIMBER_CACHE_DIR=os.path.join(WORK, 'cache'), ROWS_OPTIONS='--once')
    kept.update(more)
    return kept


def start(*arguments, **more):
    """Starts tools/gpu.py."""
    return subprocess.Popen([sys.executable, RUNNER] + list(arguments), env=environment(**more),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            universal_newlines=True,
                            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))


def run(*arguments, **more):
    """Runs tools/gpu.py to its end; returns the status and the output."""
    process = start(*arguments, **more)
    text = process.communicate()[0]
    return process.returncode, text


def entries(folder):
    """Returns the steps that a run has recorded in a folder."""
    with open(os.path.join(folder, 'results.jsonl')) as f:
        return [entry for entry in map(json.loads, f) if 'step' in entry]


def read(folder, name):
    """The text of a file."""
    with open(os.path.join(folder, name)) as f:
        return f.read()


def ours():
    """Returns other processes that have this test's folder in their environment."""
    found = []
    for pid in os.listdir('/proc'):
        try:
            if pid.isdigit() and int(pid) != os.getpid():
                with open('/proc/%s/environ' % pid, 'rb') as f:
                    if ('LIMBER_CACHE_DIR=' + WORK).encode() in f.read():
                        found.append(int(pid))
        except OSError:
            pass
    return found


def refused(pattern, *arguments, **more):
    """A wrong command line must be refused in one line with this text, and write nothing."""
    status, text = run(*arguments, **more)
    lines = text.strip().splitlines()
    check(status == 2 and pattern in text and len(lines) >= 1 and pattern in lines[-1],
          'status 2 and "%s" of %s' % (pattern, arguments), '%s\n%s' % (status, text))


def steps(name, expected_status, *arguments, **more):
    """Runs with small sizes; returns the entries by step, in order, and the folder."""
    folder = os.path.join(WORK, name)
    generous = [word for step in ('fp64-4096', 'fp32-4096') if step in arguments[1].split(',')
                for word in ('--limit', step + '=300')]
    status, text = run('--tiny', '--deadline', '1000', BUILD, folder, *generous, *arguments, **more)
    check(status == expected_status, '%s: status %d, expected %d' % (name, status, expected_status),
          text)
    files = set(os.listdir(folder))
    check({'gpu.txt', 'log.txt', 'results.jsonl'} <= files <=
          {'gpu.txt', 'log.txt', 'results.jsonl', 'gpu.json'}, name + ': files', str(files))
    return entries(folder), folder


def states(entry):
    """Returns the states of the measurements that a step has printed."""
    return [o['state'] for o in entry.get('stdout', []) if 'state' in o]


def names(list_of):
    """Returns the steps' names."""
    return [entry['step'] for entry in list_of]


def plans():
    """The expected times, with 35 smoke tests, fit the limit; the short form has few of these
    tests."""
    for more, most in (((), 580), (('--short',), 200)):
        status, text = run('--plan', BUILD, *more, MANY='35')
        last = text.strip().splitlines()[-1].split()
        check(status == 0 and ('smoke:35' in text) == (not more) and int(last[0]) <= most and
              last[3] == str(most), 'a plan', text)
    status, text = run('--plan', '--deadline', '100', BUILD)
    check(status == 2 and '--deadline 100 is too short' in text, 'a plan that is too long', text)
    status, text = run('--plan', '--used', '100', BUILD)
    check('attributes            100 ' in text, 'a plan after a build', text)
    status, text = run('--programs', '--tiny', BUILD)
    check(status == 0 and 'smoke:first %s/test/gpu_smoke first\n' % BUILD in text and
          ' --rows fp32 --sizes 24 --seconds 1e6 --once\n' in text, 'programs', text)
    status, text = run('--programs', '--short', BUILD)
    check(status == 0 and text.startswith('fp64-8192 ') and 'int8-8192' not in text,
          'programs of the short form, which is longer with carried kernels', text)
    status, text = run('--list-steps', BUILD)
    listed = text.split()
    check(listed[:2] == ['attributes', 'nvidia-smi'] and 'smoke:second' in listed and
          listed.index('smoke:third') < listed.index('fp64-4096') < listed.index('memcheck'),
          'the order of steps', text)


def everything():
    """Without a fault all rows succeed, and kernels are timed by name."""
    list_of, folder = steps('good', 0, '--steps', 'attributes,smoke,fp64-4096,fp32-4096',
                            ROWS_OPTIONS='--seconds 3')
    check(names(list_of) == ['attributes', 'smoke:first', 'smoke:second', 'smoke:third',
                             'fp64-4096', 'fp32-4096'], 'steps', str(names(list_of)))
    fp64 = list_of[4]
    check(states(fp64) and set(states(fp64)) <= {'ok', 'skipped'} and 'ok' in states(fp64),
          'rows', json.dumps(fp64))
    kernels = [k['name'] for o in fp64['stdout'] for k in o.get('kernels', [])]
    check({'limber_scan', 'limber_pack', 'limber_multiply', 'limber_reconstruct'} <= set(kernels),
          'kernels', str(kernels))
    text = read(folder, 'gpu.txt')
    check('Limber SIMT 9.0, sm_90' in text and 'limber_multiply' in text, 'gpu.txt', text)
    os.rename(TIMED_HERE, TIMED_HERE + '.away')
    list_of, _ = steps('untimed', 0, '--steps', 'fp64-4096')
    os.rename(TIMED_HERE + '.away', TIMED_HERE)
    check('single kernels are not timed' in list_of[0].get('skipped', '') and
          'ok' in states(list_of[1]), 'without timed_cuda', json.dumps(list_of))
    done = subprocess.run([LIMBER, 'report', os.path.join(folder, 'gpu.json')],
                          stdout=subprocess.PIPE, universal_newlines=True)
    check(done.returncode == 0 and 'benchmark' in done.stdout, 'gpu.json', done.stdout)


def misbehaviours():
    """Each fault fails its own step only."""
    list_of, _ = steps('hang', 1, '--steps', 'attributes,fp64-4096,fp32-4096', '--limit',
                       'fp64-4096=2', FAULT_ROWS='fp64', FAULT='SIMT_HANG=3')
    check(names(list_of) == ['attributes', 'fp64-4096', 'probe', 'fp32-4096'], 'after a hang',
          str(names(list_of)))
    check(list_of[1]['timed_out'] and list_of[1]['exit'] is None and list_of[2]['exit'] == 0 and
          'ok' in states(list_of[3]), 'a hang', json.dumps(list_of))
    check(ours() == [], 'processes that stay', str(ours()))

    list_of, folder = steps('late', 1, '--steps', 'fp64-4096', '--limit', 'fp64-4096=20',
                            FAULT_ROWS='fp64', FAULT='SIMT_HANG=90', ROWS_OPTIONS='--seconds 30')
    check(list_of[0]['timed_out'] and 'ok' in states(list_of[0]) and
          'ok: first calls only' in read(folder, 'gpu.txt'), 'rows of a step that hung',
          json.dumps(list_of))

    list_of, _ = steps('lost', 1, '--steps', 'attributes,fp64-4096,fp32-4096',
                       FAULT_ROWS='fp64', FAULT='SIMT_LOST=3')
    check(names(list_of) == ['attributes', 'fp64-4096', 'probe', 'fp32-4096'] and
          'FAILED' in states(list_of[1]) and 'ok' in states(list_of[3]), 'a lost device',
          json.dumps(list_of))

    list_of, folder = steps('gone', 1, '--steps', 'attributes,fp64-4096,fp32-4096,ncu',
                            FAULT_ROWS='fp64', FAULT='SIMT_LOST=3',
                            SIMT_GONE=os.path.join(WORK, 'gone-device'))
    check(names(list_of)[:5] == ['attributes', 'fp64-4096', 'probe', 'probe', 'fp32-4096'] and
          all('does not answer any more' in e['skipped'] for e in list_of[4:]),
          'a device that is gone', json.dumps(list_of))

    list_of, folder = steps('wrong', 1, '--steps', 'fp64-4096,fp32-4096', FAULT_ROWS='fp64',
                            FAULT='SIMT_WRONG=limber_reconstruct')
    text = read(folder, 'gpu.txt')
    check('WRONG' in states(list_of[0]) and 'ok' in states(list_of[-1]) and
          'fp64-4096        WRONG' in text and 'row 23, column 23 breaks its contract' in text,
          'a wrong result', text)

    list_of, folder = steps('smoke', 1, '--steps', 'smoke', FAULT_SMOKE='second')
    check([e['exit'] for e in list_of if e['step'] != 'probe'] == [0, 1, 0] and
          '"wanted": "0x1p1"' in read(folder, 'results.jsonl') and
          '1 wrong or failed; first: second' in read(folder, 'gpu.txt'), 'a smoke test',
          json.dumps(list_of))
    check(ours() == [], 'children that a step left', str(ours()))

    list_of, folder = steps('ends', 1, '--steps', 'smoke', FAULT_DIES='first',
                            FAULT_ENDLESS='second', FAULT_COMPILE='third')
    text = read(folder, 'gpu.txt')
    check(all(words in text for words in ('died of signal 11', 'it printed more than 64 MiB',
                                          'first: third compile, all')) and
          'WRONG' not in text, 'how steps end', text)

    list_of, _ = steps('launch', 1, '--steps', 'smoke:first,smoke:second', FAULT_LAUNCH='first')
    check(names(list_of)[:2] == ['smoke:first', 'smoke:first:kernel'] and
          list_of[1]['stdout'][0]['error'] == 'kernel: CUDA_ERROR_LAUNCH_FAILED',
          'the kernel of a failed launch', json.dumps(list_of))

    list_of, _ = steps('part', 1, '--steps', 'smoke', '--limit', 'smoke:second=2',
                       FAULT_HANG='second')
    check(names(list_of) == ['smoke:first', 'smoke:second', 'probe', 'smoke:third'] and
          list_of[1]['timed_out'] and list_of[1]['stdout'][0]['part'] == 1,
          'what a step printed before it hung', json.dumps(list_of))


def tools():
    """NVIDIA tools that do not work are skipped; errors that they find are failures, and so are
    errors of a tool that has worked."""
    script(os.path.join(TOOLS, 'ncu'), NCU_SH)
    script(os.path.join(TOOLS, 'compute-sanitizer'), SANITIZER_SH)
    script(os.path.join(TOOLS, 'ctest'), CTEST_SH)
    path = TOOLS + ':' + os.environ['PATH']
    list_of, _ = steps('tools', 1, '--steps', 'ncu,memcheck,racecheck,tests', PATH=path)
    by_name = {e['step']: e for e in list_of}
    check('ERR_NVGPUCTRPERM' in by_name['ncu-ozaki2'].get('skipped', '') and
          'command' not in by_name['ncu-pack'] and by_name['memcheck']['exit'] == 1 and
          by_name['racecheck']['exit'] == 0, 'tools', json.dumps(list_of))
    check([o['outcome'] for o in by_name['tests']['stdout']] == ['Passed', 'Failed', 'Skipped'],
          'lines of ctest', json.dumps(by_name['tests']))
    list_of, _ = steps('works', 1, '--steps', 'ncu', PATH=path, NCU_WORKS='1')
    check([e['exit'] for e in list_of if e['step'] != 'probe'] == [0, 0, 0, 3, 0] and
          not any('skipped' in e for e in list_of), 'a tool that fails once', json.dumps(list_of))
    list_of, _ = steps('no_tools', 0, '--steps', 'ncu', PATH=path, NCU_HANGS='1')
    check(len(list_of) == 5 and all('ncu did not end within 5 s' in e['skipped'] for e in list_of),
          'a tool that hangs', json.dumps(list_of))


def limits():
    """Steps are left out if they would exceed a deadline or a budget of time."""
    list_of, _ = steps('deadline', 1, '--steps', 'attributes,fp64-4096', '--deadline', '310',
                       '--used', '280')
    check(list_of[0]['exit'] == 0 and 'does not fit' in list_of[1]['skipped'], 'the deadline',
          json.dumps(list_of))
    status, text = run('--used', '575', BUILD, os.path.join(WORK, 'none'))
    check(status == 1 and '575 s of 580 s were used by the build' in text,
          'a build that took the time', text)
    refused('--deadline 5 is too short for', '--deadline', '5', BUILD,
            os.path.join(WORK, 'none'))
    folder = os.path.join(WORK, 'none')
    status, text = run(BUILD, folder, LIMBER_CUDA='nowhere.so')
    check(status == 77 and 'nowhere.so' in text, 'no GPU: status %d' % status, text)
    status, text = run('--steps', 'tests', BUILD, folder, LIMBER_CUDA='nowhere.so')
    check(status == 77 and 'nowhere.so' in text, 'no GPU for one step: status %d' % status, text)


def repeats():
    """A run adds to the results of earlier ones."""
    _, folder = steps('twice', 1, '--steps', 'smoke:first', FAULT_SMOKE='first')
    list_of, _ = steps('twice', 0, '--steps', 'smoke:second')
    check(names(list_of) == ['smoke:first', 'smoke:second'], 'two runs',
          json.dumps(list_of))
    check(list_of[1]['compiled'] == 1 and '1 kernels compiled' in read(folder, 'gpu.txt'),
          'kernels that were compiled', json.dumps(list_of))
    check(read(folder, 'gpu.txt').startswith('run 2, ') and '\nrun 1, ' in read(folder, 'gpu.txt')
          and '"wanted": "0x1p1"' in read(folder, 'gpu.txt'), 'both pages', read(folder, 'gpu.txt'))


def interrupts():
    """A run that is interrupted stops its processes and keeps its results."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        folder, pipe = os.path.join(WORK, 'stop%d' % number), os.path.join(WORK, 'pipe%d' % number)
        os.mkfifo(pipe)
        process = start('--tiny', '--steps', 'attributes,fp64-4096,fp32-4096', BUILD, folder,
                        FAULT_ROWS='fp64', FAULT='SIMT_HANG=3', FAULT_PIPE=pipe)
        with open(pipe) as f:
            f.read()
        process.send_signal(number)
        text = process.communicate()[0]
        list_of = entries(folder)
        check(process.returncode == 128 + number and names(list_of) == ['attributes', 'fp64-4096']
              and list_of[1]['stopped'] and 'stopped' in read(folder, 'gpu.txt'),
              'signal %d' % number, text + json.dumps(list_of))
        check(ours() == [], 'processes that stay', str(ours()))


def bad_input():
    """Bad arguments and folders are refused."""
    out = os.path.join(WORK, 'none')
    refused('nowhere is not a folder', 'nowhere', out)
    refused('has no tools/limber', TOOLS, out)
    refused('no step is called "fp65"', '--steps', 'fp64,fp65', BUILD, out)
    os.rename(os.path.join(BUILD, 'test', 'gpu_smoke'), os.path.join(BUILD, 'test', 'away'))
    refused('smoke: ', '--steps', 'smoke', BUILD, out)
    os.rename(os.path.join(BUILD, 'test', 'away'), os.path.join(BUILD, 'test', 'gpu_smoke'))
    refused('FOLDER is missing', BUILD)
    refused('--deadline takes seconds above 0', '--deadline', '-1', BUILD, out)
    refused('--limit fp64-4096=x: it takes STEP=S', '--limit', 'fp64-4096=x', BUILD, out)
    refused('Not a directory', BUILD, os.path.join(BUILD, 'tools', 'limber', 'out'))
    kernels = os.path.join(WORK, 'cubins')
    refused('cubins is not a folder', '--carried', kernels, BUILD, out)
    os.mkdir(kernels)
    refused('cubins has no kernels', '--carried', kernels)
    for line, said in (('other', 'is not a kernel'),
                       ('limber-cubin 1 sm_80 13.0', 'is for sm_80, and the device is sm_90'),
                       ('limber-cubin 1 sm_90a 12.4', 'was made by NVRTC 12.4, and here is 13.0')):
        with open(os.path.join(kernels, 'sm_90a-0.cubin'), 'w') as f:
            f.write(line + '\n')
        refused(said, '--carried', kernels, '--steps', 'smoke', BUILD, out)
        refused(said, '--carried', kernels)
    with open(os.path.join(kernels, 'sm_90a-1.cubin'), 'w') as f:
        f.write('limber-cubin 1 sm_90a 13.0\n')
    refused('kernels of several kinds: sm_90a by NVRTC 12.4, sm_90a by NVRTC 13.0', '--carried',
            kernels)
    for name in ('0', '1'):
        with open(os.path.join(kernels, 'sm_90a-%s.cubin' % name), 'w') as f:
            f.write('limber-cubin 1 sm_86 13.0\n')
    status, text = run('--carried', kernels, SIMT_CC='87')
    check(status == 0, 'kernels for a lower capability of the generation', text)
    refused('is for sm_86, and the device is sm_89', '--carried', kernels, SIMT_CC='89')
    os.remove(os.path.join(kernels, 'sm_90a-1.cubin'))
    with open(os.path.join(kernels, 'sm_90a-0.cubin'), 'w') as f:
        f.write('limber-cubin 1 sm_90a 13.0\n')
    list_of, _ = steps('carried', 0, '--carried', os.path.relpath(kernels), '--steps', 'smoke')
    check(list_of[0]['stdout'][0]['cubins'] == os.path.realpath(kernels), 'kernels that are used',
          json.dumps(list_of))
    hangs = os.path.join(WORK, 'hangs.so')      # opening the pipe waits for a writer
    os.mkfifo(hangs)
    status, text = run('--carried', kernels, LIMBER_CUDA=hangs)
    check(status == 0, 'a driver that hangs when it is loaded', text)
    refused('no step is called "fp65"', '--check', '--steps', 'smoke:scan,tests,fp65')
    refused('no step is called "smoke:typo"', '--check', '--steps', 'smoke:typo')
    refused('--deadline 5 is too short', '--check', '--deadline', '5')
    status, text = run('--check', '--steps', 'smoke:scan,tests', '--limit', 'smoke:scan=3')
    check(status == 0 and text == '580 tests\n', 'options before there is a build', text)
    status, text = run('--check', '--short')
    check(status == 0 and text == '200\n', 'options before there is a build', text)
    refused('BUILD is missing')
    status, text = run('--help')
    check(status == 0 and 'example:' in text, 'help', text)


def sequence():
    """Runs every step of the plan by the programs that a device would run."""
    programs = {'limber': shlex.quote(LIMBER), 'smoke': shlex.quote(SMOKE)}
    script(os.path.join(BUILD, 'tools', 'limber'), ONE_KERNEL_SH % programs)
    script(os.path.join(BUILD, 'test', 'gpu_smoke'), THREE_KINDS_SH % programs)
    for tool in ('nvidia-smi', 'ncu', 'compute-sanitizer'):
        script(os.path.join(TOOLS, tool), TOOL_SH)
    with open(os.path.join(BUILD, 'CTestTestfile.cmake'), 'w') as f:
        f.write('add_test(smoke_gpu "%s" "scan")\n'
                'set_tests_properties(smoke_gpu PROPERTIES LABELS gpu)\n' % SMOKE)
    folder = os.path.join(WORK, 'all')
    path = TOOLS + ':' + os.environ['PATH']
    planned = run('--tiny', '--list-steps', BUILD)[1].split()
    status, text = run('--tiny', '--deadline', '3000', BUILD, folder, PATH=path)
    list_of = entries(folder)
    check(len(planned) > 25 and names(list_of) == planned, 'every step',
          '%s\n%s' % (planned, names(list_of)))
    check(status == 0 and not any('skipped' in e for e in list_of), 'a step that is not ok', text)
    rows = [e for e in list_of if '--rows' in e['command'] and '--json' in e['command']]
    check(len(rows) == 15 and all('ok' in states(e) for e in rows), 'rows', json.dumps(rows))
    page = read(folder, 'gpu.txt')
    check(all('\n%-16s ok ' % name in page for name in planned), 'gpu.txt', page)


def main():
    for folder in (TOOLS, os.path.join(BUILD, 'tools'), os.path.join(BUILD, 'test')):
        os.makedirs(folder)
    open(os.path.join(BUILD, 'CTestTestfile.cmake'), 'w').close()
    shutil.copy(TIMED, TIMED_HERE)
    if SMOKE:
        sequence()
        print('%d checks, %d failed' % (checks, bad))
        return bad > 0
    script(os.path.join(BUILD, 'tools', 'limber'),
           LIMBER_SH % {'limber': shlex.quote(LIMBER), 'python': shlex.quote(sys.executable)})
    script(os.path.join(BUILD, 'test', 'gpu_smoke'), SMOKE_SH)
    for part in (plans, everything, misbehaviours, tools, limits, repeats, interrupts, bad_input):
        part()
    print('%d checks, %d failed' % (checks, bad))
    return bad > 0


try:
    sys.exit(main())
finally:
    for pid in ours():
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(WORK, ignore_errors=True)
