# SPDX-License-Identifier: BSD-3-Clause
"""Tests tensors in GPU memory, passed by DLPack, on the stand-in for CUDA's driver that LIMBER_CUDA
names."""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from ctypes import byref, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p, py_object

import numpy

import limber
import limber.ops

driver = ctypes.CDLL(os.environ["LIMBER_CUDA"])
COPY_IN, COPY_OUT = driver.cuMemcpyHtoD_v2, driver.cuMemcpyDtoH_v2
COPY_IN.argtypes, COPY_OUT.argtypes = (c_uint64, c_void_p, c_size_t), (c_void_p, c_uint64, c_size_t)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = py_object, (c_void_p, c_char_p, c_void_p)


class Managed(ctypes.Structure):     # DLManagedTensor of dlpack.h
    _fields_ = [("tensor", limber._memory._Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class Tensor:
    """A tensor in GPU memory with the attributes that tensor libraries have."""

    def __init__(self, array, device=0):
        """Copies an array to the memory of a device."""
        self.dtype, self.shape, self.device = array.dtype, array.shape, device
        array = numpy.ascontiguousarray(array)
        self.bytes, self.at, self.streams = array.nbytes, c_uint64(), []
        self.steps = tuple(step // array.itemsize for step in array.strides)
        context = c_void_p()
        assert driver.cuDevicePrimaryCtxRetain(byref(context), device) == 0
        assert driver.cuCtxSetCurrent(context) == 0
        assert driver.cuMemAlloc_v2(byref(self.at), c_size_t(max(self.bytes, 1))) == 0
        assert COPY_IN(self.at, array.ctypes.data, self.bytes) == 0

    def numpy(self):
        """Copies the tensor back to host memory."""
        array = numpy.empty(self.shape, self.dtype)
        assert COPY_OUT(array.ctypes.data, self.at, self.bytes) == 0
        return array

    def __dlpack_device__(self):
        return 2, self.device

    def __dlpack__(self, stream=None, max_version=None):
        """Returns a DLPack capsule, and remembers the stream on which the consumer will read."""
        self.streams.append(stream)
        dims = len(self.shape)
        self.managed = Managed()
        self.kept = (c_int64 * dims)(*self.shape), (c_int64 * dims)(*self.steps)
        t = self.managed.tensor
        t.data, t.device_type, t.device_id, t.ndim, t.lanes = self.at.value, 2, self.device, dims, 1
        t.code, t.bits = {"f": 2, "i": 0}[self.dtype.kind], 8 * self.dtype.itemsize
        t.shape, t.strides = self.kept
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)


class Cuda(unittest.TestCase):
    """Products of tensors in a GPU's memory."""
    def setUp(self):
        self.ctx = limber.Context(backend="cuda", cache_dir="")
        self.random = numpy.random.default_rng(3)

    def tearDown(self):
        self.ctx.close()

    def test_products(self):
        """Products of tensors on the GPU have the bits of products of arrays, and are ordered after
        the work of those who write the tensors."""
        for shapes in ((9, 20), (20, 7)), ((3, 5, 8), (8, 4)), ((2, 3, 5, 8), (3, 8, 4)):
            a, b = (self.random.standard_normal(shape) for shape in shapes)
            there = Tensor(a), Tensor(b), Tensor(numpy.zeros((a @ b).shape))
            self.assertIs(self.ctx.matmul(*there[:2], "correct", there[2]), there[2])
            self.assertTrue((there[2].numpy() == self.ctx.matmul(a, b, "correct")).all())
            for tensor in there:    # waits for those who write the tensor
                self.assertEqual(set(tensor.streams), {1})

    def test_report_and_scalars(self):
        """Products on a GPU use alpha, beta and C, and their report names the backend."""
        a, c = self.random.standard_normal((6, 6)).astype("f"), numpy.ones((6, 6), "f")
        there = Tensor(c)
        _, report = self.ctx.matmul(Tensor(a), Tensor(a), "correct", there, alpha=2, beta=-1,
                                    report=True)
        self.assertEqual(report.backend, "cuda")
        want = (2 * (a.astype("d") @ a.astype("d")) - 1).astype("f")
        self.assertTrue((there.numpy() == want).all())

    def test_refusals(self):
        """Operands in the wrong memory, on another device or with negative strides are refused."""
        a = self.random.standard_normal((6, 6))
        there, out = Tensor(a), Tensor(numpy.zeros((6, 6)))
        odd = Tensor(a)
        odd.steps = 6, -1
        cpu = limber.Context(backend="interp", cache_dir="")
        for text, call in (
                ("out: is not given, and operands lie on a GPU",
                 lambda: self.ctx.matmul(there, there)),
                ("out: lies in host memory", lambda: self.ctx.matmul(there, there, out=a.copy())),
                ("a: lies in host memory", lambda: self.ctx.matmul(a, there, out=out)),
                ("out: lies in the memory|a: lies in host memory",
                 lambda: self.ctx.matmul(a, a, out=out)),
                ("b: lies on CUDA device 1, and the context computes on device 0",
                 lambda: self.ctx.matmul(there, Tensor(a, 1), out=out)),
                ("a: lies on CUDA device 0, and the context computes on CPUs",
                 lambda: cpu.matmul(there, there, out=out)),
                ("a: lies on a GPU, and would have to be copied",
                 lambda: self.ctx.matmul(odd, there, out=out)),
                ("lies in the memory of CUDA device 0", lambda: limber.ops.exp(there)),
                ("lies in the memory of CUDA device 0", lambda: limber.convert(there, "f32")),
                ("out: shape", lambda: self.ctx.matmul(there, there, out=Tensor(a[:5])))):
            with self.subTest(text), self.assertRaisesRegex(limber.BadArgument, text):
                call()
        self.assertTrue((out.numpy() == 0).all())
        cpu.close()


class Wheels(unittest.TestCase):
    """Folders that stand for Python packages with NVIDIA's libraries, which no loader finds."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.nvrtc = self.put("cu99/lib/libnvrtc.so.99", os.environ["LIMBER_NVRTC"])
        self.cublas = self.put("cublas/lib/libcublas.so.98", os.environ["LIMBER_NVRTC"])
        self.cudnn = self.put("cudnn/lib/libcudnn.so.97", os.environ["LIMBER_NVRTC"])
        self.put("cu98/lib/libnvrtc.so.98", os.devnull)
        self.put("cu100/lib/libnvrtc.so.100", os.devnull)   # newer than the driver supports
        self.put("cu99/lib/libnvrtc.so.99.9", os.devnull)

    def put(self, name, content):
        """Copies a file into the stand-in for the package folder `nvidia`."""
        path = os.path.join(self.folder.name, "nvidia", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy(content, path)
        return path

    def run_python(self, program, **variables):
        """Runs a program with the folders importable and returns what it prints."""
        path = os.pathsep.join([self.folder.name, os.environ["PYTHONPATH"]])
        environment = {**os.environ, "SIMT_DRIVER": "99000", "PYTHONPATH": path, **variables}
        if "LIMBER_NVRTC" not in variables:
            del environment["LIMBER_NVRTC"]
        return subprocess.run([sys.executable, "-c", "import os, limber\n" + program],
                              env=environment, check=True, capture_output=True,
                              text=True).stdout.split("\n")[:-1]

    PRODUCT = ("import numpy\na = numpy.array([[2., 3.]])\n"
               "ctx = limber.Context(backend={}, cache_dir='')\nprint(ctx.matmul(a, a.T)[0, 0])\n"
               "print(os.environ.get('LIMBER_NVRTC'))\nprint(os.environ.get('LIMBER_CUBLAS'))")

    def test_nvrtc_is_found(self):
        """NVRTC is found in the wheel's package, unless LIMBER_NVRTC names another."""
        product = self.PRODUCT.format("'cuda'")
        self.assertEqual(self.run_python(product), ["13.0", self.nvrtc, "None"])
        self.assertEqual(self.run_python(self.PRODUCT.format(None), LIMBER_BACKEND="cuda"),
                         ["13.0", self.nvrtc, "None"])
        self.assertEqual(self.run_python(product, LIMBER_NVRTC=os.environ["LIMBER_NVRTC"])[1],
                         os.environ["LIMBER_NVRTC"])

    def test_cublas_is_found_where_it_is_asked_for(self):
        """cuBLAS is looked for only if LIMBER_CUBLAS is 1; a path in it is kept."""
        product = self.PRODUCT.format("'cuda'")
        self.assertEqual(self.run_python(product, LIMBER_CUBLAS="1")[2], self.cublas)
        self.assertEqual(self.run_python(product, LIMBER_CUBLAS="/else/where")[2], "/else/where")

    def test_what_the_loader_finds_is_left_to_it(self):
        """LIMBER_NVRTC stays unset where the loader finds NVRTC itself."""
        program = "limber._cuda.name_libraries()\nprint(os.environ.get('LIMBER_NVRTC'))"
        self.assertEqual(self.run_python(program), [self.nvrtc])
        self.assertEqual(
            self.run_python(program, LD_LIBRARY_PATH=os.path.dirname(self.nvrtc)), ["None"])

    def test_nothing_is_named_for_processors(self):
        """A context on a CPU sets no variable."""
        self.assertEqual(self.run_python(self.PRODUCT.format("'interp'"), LIMBER_CUBLAS="1"),
                         ["13.0", "None", "1"])

    def test_programs_find_what_they_measure_beside(self):
        """search_path() adds the folders of cuBLAS and cuDNN, which benchmarks compare with."""
        folders = [os.path.dirname(self.cublas), os.path.dirname(self.cudnn)]
        show = "print(limber._cuda.search_path())"
        self.assertEqual(self.run_python(show, LD_LIBRARY_PATH=""), [os.pathsep.join(folders)])
        self.assertEqual(self.run_python(show, LD_LIBRARY_PATH="/before"),
                         [os.pathsep.join(["/before", *folders])])


if __name__ == "__main__":
    unittest.main()
