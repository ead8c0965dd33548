# SPDX-License-Identifier: BSD-3-Clause
"""Writes files atomically."""
import argparse
import os


def writable(path):
    """For argparse's `type`: the path of a file that can be written, because a program that
    computes for minutes is to say at once that it cannot."""
    folder = os.path.dirname(path) or "."
    why = None
    if os.path.isdir(path):
        why = "Is a directory"
    elif not os.path.isdir(folder):
        why = f"{folder}: no such folder"
    elif not os.access(folder, os.W_OK):
        why = f"{folder}: Permission denied"
    if why:
        raise argparse.ArgumentTypeError(f"{path}: {why}")
    return path


def write_whole(path, content):
    """Writes text or bytes to a file atomically."""
    part = f"{path}.part"
    try:
        with open(part, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.remove(part)
        raise
