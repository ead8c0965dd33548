# SPDX-License-Identifier: BSD-3-Clause
"""Spack's recipe, for a checkout: `spack repo create limber-repo`, this file as
packages/limber/package.py there, `spack repo add limber-repo`, and in the checkout
`spack dev-build limber@main`."""
from spack.package import *


class Limber(CMakePackage):
    """Products of matrices and convolutions in the number format and at the accuracy that a
    caller states: numbers are cut into pieces that the machine's units multiply fast."""

    license("BSD-3-Clause")

    version("main")

    variant("llvm", default=True, description="Compile kernels for CPUs through LLVM")
    variant("tools", default=True, description="Build the command line")
    variant("blas", default=True, description="Build the libraries that stand before a BLAS")
    variant("fortran", default=False, description="Build the Fortran module")

    depends_on("c", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.20:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("llvm@19: +clang", when="+llvm", type=("build", "link", "run"))
    depends_on("libffi")
    depends_on("xxhash")
    with when("+tools"):
        depends_on("mpfr")
        depends_on("popt")
        depends_on("cjson")
        depends_on("zlib-api")

    def cmake_args(self):
        args = [
            self.define("LIMBER_TESTS", False),
            self.define_from_variant("LIMBER_LLVM", "llvm"),
            self.define_from_variant("LIMBER_TOOLS", "tools"),
            self.define_from_variant("LIMBER_BLAS", "blas"),
            self.define_from_variant("LIMBER_FORTRAN", "fortran"),
        ]
        if self.spec.satisfies("+llvm"):
            args.append(self.define("LIMBER_LLVM_VERSION", self.spec["llvm"].version.up_to(1)))
        return args
