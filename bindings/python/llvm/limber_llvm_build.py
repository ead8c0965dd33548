# SPDX-License-Identifier: BSD-3-Clause
"""Builds the wheel limber-llvm as that of limber is built, in a checkout."""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "wheel"))
from limber_build import *  # noqa: E402,F401,F403
