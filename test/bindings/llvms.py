"""Two LLVMs in one process: the one that Limber opens, and the one inside llvmlite or PyTorch.
Both must work, whichever is used first, and neither may see the other's symbols.

llvms.py find: exits with 0 if there is a libLLVM for Limber.
llvms.py limber|llvmlite FILE: which one is used first, and the name of Limber's libLLVM."""
import ctypes
import os
import sys

import limber
import llvmlite.binding as llvm
import numpy

NAMES = ["libLLVM.so.19.1", "libLLVM-19.so.1", "libLLVM.so.20.1", "libLLVM.so.21.1",
         "libLLVM.so.22.1"]
IR = """
define i32 @answer(i32 %x) {
  %y = mul i32 %x, 6
  ret i32 %y
}
"""


def find():
    """Exits with 0 if there is a libLLVM that Limber should find."""
    for name in [os.environ.get("LIMBER_LLVM")] if "LIMBER_LLVM" in os.environ else NAMES:
        try:
            sys.exit(not ctypes.CDLL(name))
        except OSError:
            pass
    sys.exit(1)


def product():
    """Multiplies by a kernel that is compiled in this process."""
    a = numpy.zeros((80, 80))
    a[0, :3] = 1e16, 1, -1e16
    c, report = limber.matmul(a, numpy.ones((80, 80)), contract="correct", scheme="ozaki2",
                              report=True)
    assert c[0, 0] == 1, c[0, 0]
    assert report.backend == "llvm", report
    with open("/proc/self/maps", encoding="utf-8") as maps:
        assert sys.argv[2] in maps.read(), f"Limber has not opened {sys.argv[2]}"


def answer():
    """Runs a function that llvmlite compiles in this process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    with llvm.create_mcjit_compiler(llvm.parse_assembly(IR), machine) as engine:
        engine.finalize_object()
        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(
            engine.get_function_address("answer"))
        assert function(7) == 42, function(7)


def tensors():
    """Multiplies tensors with PyTorch and with Limber in one process, if PyTorch is installed."""
    try:
        import torch
    except ImportError:
        return ""
    a = torch.arange(64, dtype=torch.float64).reshape(8, 8)
    assert (torch.as_tensor(limber.matmul(a, a, contract="correct")) == torch.mm(a, a)).all()
    return f", PyTorch {torch.__version__} too"


steps = {"find": (find,), "limber": (product, answer, product),
         "llvmlite": (answer, product, answer)}
for step in steps[sys.argv[1]]:
    step()
beside = tensors()
steps[sys.argv[1]][0]()
everywhere = ctypes.CDLL(None)
assert hasattr(everywhere, "malloc")
for name in ("LLVMContextCreate", "LLVMInitializeX86Target", "LLVMDisposeMessage"):
    assert not hasattr(everywhere, name), f"{name} is visible to all libraries"
print(f"{sys.argv[1]} first: both LLVMs work{beside}, and neither is visible")
