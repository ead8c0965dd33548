# SPDX-License-Identifier: BSD-3-Clause
"""Text files that appear when they are whole."""
import os


def write_whole(path, text):
    part = f"{path}.part"
    try:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.remove(part)
        raise
