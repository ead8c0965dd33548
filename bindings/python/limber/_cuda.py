# SPDX-License-Identifier: BSD-3-Clause
"""Finds NVIDIA's libraries in Python packages.  PyTorch and CuPy install them in nvidia/*/lib,
which the loader does not search; a machine may have no others."""
import ctypes
import glob
import importlib.util
import os


def _driver():
    """The major version of CUDA that the driver supports, or None."""
    version = ctypes.c_int()
    try:
        cuda = ctypes.CDLL(os.environ.get("LIMBER_CUDA") or "libcuda.so.1")
        failed = cuda.cuDriverGetVersion(ctypes.byref(version))
        return None if failed else version.value // 1000
    except (OSError, AttributeError):
        return None


def _is_found(file):
    """Whether the loader finds the library without a path."""
    try:
        ctypes.CDLL(os.path.basename(file))
    except OSError:
        return False
    return True


def _file(name, most):
    """The newest lib`name`.so in the packages with a version up to `most`; None if there is none or
    the loader finds such a version itself."""
    package = importlib.util.find_spec("nvidia")
    files = {}
    for folder in package.submodule_search_locations or [] if package else []:
        for file in glob.glob(os.path.join(glob.escape(folder), "*", "lib", f"lib{name}.so.*")):
            version = file.rsplit(".", 1)[1]
            if version.isdigit() and int(version) <= most:
                files.setdefault(int(version), file)
    file = files[max(files)] if files else None
    return None if file and _is_found(file) else file


def name_libraries():
    """Sets variables that name NVRTC for the library and for child processes; and cuBLAS, if
    LIMBER_CUBLAS asks for one that is found."""
    driver = _driver()
    if driver and not os.environ.get("LIMBER_NVRTC"):
        file = _file("nvrtc", driver)
        if file:
            os.environ["LIMBER_NVRTC"] = file
    if driver and os.environ.get("LIMBER_CUBLAS") == "1":
        os.environ["LIMBER_CUBLAS"] = _file("cublas", driver) or "1"


def search_path():
    """LD_LIBRARY_PATH for a program that compares with cuBLAS and cuDNN."""
    driver = _driver() or 0
    files = [_file("cublas", driver), _file("cublasLt", driver), _file("cudnn", 99)]
    before = os.environ.get("LD_LIBRARY_PATH")
    folders = [before] if before else []
    for file in filter(None, files):
        if os.path.dirname(file) not in folders:
            folders.append(os.path.dirname(file))
    return os.pathsep.join(folders)
