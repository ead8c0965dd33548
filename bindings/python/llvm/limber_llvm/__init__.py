# SPDX-License-Identifier: BSD-3-Clause
"""LLVM's code generator for Limber, which finds it by itself: nothing needs to be imported."""
