# SPDX-License-Identifier: BSD-3-Clause
"""_watch.py RECORD STEPS (SCRIPT | -m MODULE | -c CODE) [ARGUMENT...]: runs a script for `python -m
limber same`, and writes digests of its variables to the file RECORD.  If STEPS is 1, also of what
each line of the script changed.  NumPy prints all digits.  This file imports nothing of Limber."""
import hashlib
import importlib.util
import io
import os
import pickle
import runpy
import sys
import time
import types

_DEPTH, _ITEMS, _BYTES = 4, 10000, 1 << 26      # of a variable that is compared
_STEPS, _SECONDS = 20000, 60                    # of one run


class _AllDigits:
    """An import hook that has NumPy print all digits once it is imported."""

    def find_spec(self, name, path=None, target=None):
        """NumPy's spec, with a loader that also sets the number of digits."""
        if name != "numpy":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            before = spec.loader.exec_module

            def exec_module(module):
                before(module)
                module.set_printoptions(precision=17)
            spec.loader.exec_module = exec_module
        return spec


def _add(sha, value, depth=0):
    """Adds a value to the digest; False if it cannot be compared."""
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        sha.update(repr(value).encode())
    elif hasattr(value, "dtype") and hasattr(value, "tobytes") and hasattr(value, "shape"):
        if value.dtype.hasobject or value.nbytes > _BYTES:
            return False
        sha.update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
    elif isinstance(value, (list, tuple, dict)):
        if depth == _DEPTH or len(value) > _ITEMS:
            return False
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        sha.update(type(value).__name__.encode())
        return all([_add(sha, key, depth + 1) and _add(sha, item, depth + 1)
                    for key, item in pairs])
    elif isinstance(value, (type, types.ModuleType)) or callable(value):
        return False
    elif depth < _DEPTH and getattr(value, "__dict__", None):       # such as a fitted model
        sha.update(type(value).__name__.encode())
        return any([_add(sha, vars(value)[key], depth + 1) for key in sorted(vars(value))])
    else:
        return False
    return True


def _digest(value):
    """The SHA-256 of a value, or None if it cannot be compared."""
    sha = hashlib.sha256()
    try:
        return sha.hexdigest() if _add(sha, value) else None
    except Exception:       # an object with properties of its own
        return None


def _digests(names):
    """The digests of those variables that can be compared; names with a leading _ are left out."""
    found = {name: _digest(value) for name, value in list(names.items()) if name[:1] != "_"}
    return {name: digest for name, digest in found.items() if digest}


def _numbers(value):
    """The bytes of an array of float64 or float32, and its format for memoryview; else None."""
    kind = {"float64": "d", "float32": "f", "complex128": "d", "complex64": "f"}
    kind = kind.get(str(getattr(value, "dtype", "")))
    return (value.tobytes(), kind) if kind and value.nbytes <= 1 << 22 else None


class _Steps:
    """Records what each line of the main program changes: variables, and what it prints."""

    def __init__(self):
        self.steps, self.before, self.out = [], {}, sys.stdout
        self.printed = hashlib.sha256()
        self.until = time.monotonic() + _SECONDS

    def write(self, text):
        """Takes the place of sys.stdout.write."""
        self.printed.update(text.encode(errors="replace"))
        return self.out.write(text)

    def __getattr__(self, name):        # as sys.stdout
        return getattr(self.out, name)

    def enter(self, frame, event, argument):
        """The trace function for calls (sys.settrace): traces those from the main program."""
        if frame.f_globals.get("__name__") != "__main__" or frame.f_code.co_filename == __file__:
            return None
        self.before[frame] = (None, {}, None)
        return self.line

    def line(self, frame, event, argument):
        """The trace function for lines: records what has changed since the line before."""
        if len(self.steps) >= _STEPS or time.monotonic() > self.until:
            sys.settrace(None)
            return None
        line, names, printed = self.before.get(frame, (None, {}, None))
        now, said = _digests(frame.f_locals), self.printed.hexdigest()
        if line is not None:
            changed = {name: now[name] for name in now if names.get(name) != now[name]}
            if printed != said:
                changed["what is printed"] = said
            if changed:
                self.steps.append((frame.f_code.co_filename, line, changed))
        if event == "return":
            self.before.pop(frame, None)
        else:
            self.before[frame] = (frame.f_lineno, now, said)
        return self.line


def _run(started):
    """Prepares to run the script as __main__; returns its variables, and a function that runs
    it."""
    module = types.ModuleType("__main__")
    if started[0] == "-m":
        sys.argv = started[1:]
        sys.path[0] = os.getcwd()
        found = {}
        return found, lambda: found.update(
            runpy.run_module(started[1], run_name="__main__", alter_sys=True))
    if started[0] == "-c":
        sys.argv = ["-c", *started[2:]]
        sys.path[0] = ""
        code = compile(started[1], "<string>", "exec")
    else:
        sys.argv = started
        sys.path[0] = os.path.dirname(os.path.abspath(started[0]))
        module.__file__ = started[0]
        with io.open_code(os.path.abspath(started[0])) as file:
            code = compile(file.read(), started[0], "exec")
    module.__builtins__ = __builtins__
    sys.modules["__main__"] = module
    return module.__dict__, lambda: exec(code, module.__dict__)


def main():
    record, steps, *started = sys.argv[1:]
    sys.meta_path.insert(0, _AllDigits())
    watch = _Steps()
    names, run = _run(started)
    try:
        if steps == "1":
            sys.stdout = watch
            sys.settrace(watch.enter)
        run()
    finally:
        sys.settrace(None)
        sys.stdout = watch.out
        variables = {name: (digest, type(names[name]).__name__, _numbers(names[name]))
                     for name, digest in _digests(names).items()}
        with open(record, "wb") as file:
            pickle.dump((variables, watch.steps), file)


if __name__ == "__main__":
    main()
