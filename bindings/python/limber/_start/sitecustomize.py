# SPDX-License-Identifier: BSD-3-Clause
"""Python runs this file when it starts in a program of `python -m limber run`, which names this
folder in PYTHONPATH.  It does what limber.numpy.install() does, as soon as the program has imported
NumPy, and what limber.torch.batch_invariant() does, as soon as it has imported PyTorch, if that was
asked for; in child processes, too.  It also runs the sitecustomize that the program would have
had."""
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_WISH = os.environ.get("LIMBER_NUMPY", "")
_TORCH = os.environ.get("LIMBER_TORCH", "")


def _install():
    """As limber.numpy.install()."""
    file, *words = _WISH.split(",")
    try:
        unknown = [word for word in words if word not in ("longdouble", "dot")]
        if unknown:
            raise ValueError(f"LIMBER_NUMPY: {unknown[0]!r} is neither longdouble nor dot")
        name = "limber._loops"      # as limber.numpy finds it later
        loops = sys.modules.get(name)
        if loops is None:
            spec = importlib.util.spec_from_file_location(
                name, os.path.join(os.path.dirname(_HERE), "_loops.py"))
            loops = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loops)
            sys.modules[name] = loops
        loops.load(file)
        loops.install("longdouble" in words, "dot" in words)
    except Exception as error:      # the program goes on without
        print(f"limber: NumPy keeps its own loops: {error}", file=sys.stderr)


def _install_torch():
    """As limber.torch.batch_invariant()."""
    try:
        if _TORCH != "batch_invariant":
            raise ValueError(f"LIMBER_TORCH: {_TORCH!r} is not batch_invariant")
        import limber.torch     # which reads the variable when it is complete  # noqa: F401
    except Exception as error:
        print(f"limber: PyTorch keeps its own operators: {error}", file=sys.stderr)


class _Finder:
    """Finds a module, and calls a function when the module has been executed.  Programs may look
    for the module (importlib.util.find_spec) before they import it."""

    def __init__(self, name, then):
        self.name, self.then = name, then
        self.asks = False

    def find_spec(self, name, path=None, target=None):
        """The module's spec, with a loader that also calls the function; None for other modules."""
        if name != self.name or self.asks:
            return None
        self.asks = True        # the others
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asks = False
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        loader, execute = spec.loader, spec.loader.exec_module

        def exec_module(module):
            del loader.exec_module      # of this instance
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            execute(module)
            self.then()

        loader.exec_module = exec_module
        return spec


def _go_on():
    """Runs the next sitecustomize that Python would have found."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
    this = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize    # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if this is not None:
            sys.modules.setdefault("sitecustomize", this)


if _WISH:
    sys.meta_path.insert(0, _Finder("numpy", _install))
if _TORCH:
    sys.meta_path.insert(0, _Finder("torch", _install_torch))
_go_on()
