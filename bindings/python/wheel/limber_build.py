# SPDX-License-Identifier: BSD-3-Clause
"""Builds wheels by scikit-build-core, then tags them with the oldest platform that they run on."""
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from scikit_build_core.build import *  # noqa: F403  (the other hooks as they are)
from scikit_build_core.build import build_wheel as _build_wheel

# Libraries that every manylinux platform has (PEP 600), of those that C programs link.
SYSTEM = re.compile(r"(lib(c|m|dl|rt|pthread|gcc_s|z)|ld-linux-.*)\.so\.\d+")


def _tag(folder):
    """The tag manylinux_2_N_MACHINE by the newest glibc symbol that a file in the folder needs;
    None if a library is needed that is neither in the folder nor on all systems."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    here = {path.name for path in files}
    newest = 0
    for path in files:
        if path.read_bytes()[:4] != b"\x7fELF":
            continue
        text = subprocess.run(["readelf", "--wide", "--dynamic", "--version-info", path],
                              capture_output=True, text=True, check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
        foreign = [name for name in needed if name not in here and not SYSTEM.fullmatch(name)]
        if foreign:
            print(f"{path.name} needs {', '.join(foreign)}: the wheel is for this system alone")
            return None
        newest = max([newest, *map(int, re.findall(r"Name: GLIBC_2\.(\d+)", text))])
    return f"manylinux_2_{newest}_{platform.machine()}" if newest else None


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Builds the wheel by scikit-build-core, then gives it the tag of the platforms that can load
    its libraries."""
    name = _build_wheel(wheel_directory, config_settings, metadata_directory)
    file = Path(wheel_directory, name)
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(file) as wheel:
        wheel.extractall(folder)
        tag = _tag(Path(folder))
    if not tag:
        return name
    answer = subprocess.run([sys.executable, "-m", "wheel", "tags", "--remove",
                             f"--platform-tag={tag}", file],
                            capture_output=True, text=True, check=True)
    return answer.stdout.split()[-1]
