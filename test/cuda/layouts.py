# SPDX-License-Identifier: BSD-3-Clause
"""Compares the kernels' address functions with CuTe's layouts: layouts.py KERNELS INCLUDES FOLDER

Writes FOLDER/kernels.h and FOLDER/scaled.h: the functions that layouts.cc and layouts_scaled.cc
test, copied unchanged from the headers in KERNELS.  Lists the instructions of device.h that occur
neither in CUTLASS nor in CUDA's headers (the files INCLUDES)."""
import re
import subprocess
import sys

FUNCTIONS = {
    "kernels.h": {
        "tile.h": ("row_of", "column_of"),
        "stage.h": ("piece_at",),
        "device.h": ("tile_descriptor", "product_descriptor"),
        "warp.h": ("fragments_a", "fragments_b", "multiply_f64", "load_scales"),
    },
    "scaled.h": {
        "device.h": ("tile_descriptor", "product_descriptor", "scales_descriptor",
                     "scaled_descriptor"),
        "mx_load.h": ("place_of_scale",),
        "tensor.h": ("issue_stage_scales", "issue_scaled_piece"),
    },
}
# opcodes as CUTLASS or CUDA write them, without qualifiers that PTX allows to be omitted
SPELLED = ((".global.tile.mbarrier", ".global.mbarrier"),
           ("barrier.cluster.arrive.release", "barrier.cluster.arrive"),
           ("barrier.cluster.wait.acquire", "barrier.cluster.wait"),
           ("ldmatrix.sync.aligned.m8n8.x4", "ldmatrix.sync.aligned.x4.m8n8"),
           # both opcodes assemble to one instruction
           ("kind::mxf4.block_scale.scale_vec::2X", "kind::mxf4nvf4.block_scale.scale_vec::2X"))


def function(text, name):
    """Returns a function with its template line and its body."""
    begin = re.search(rf"^(template <[^\n]*>\s)?DEVICE [^\n(]*\b{name}\(", text, re.M).start()
    at = text.index("{", text.index(")", text.index(name + "(", begin) + len(name)))
    depth = 0
    while True:
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if depth == 0:
            return text[begin:at] + "\n"


def instructions(header):
    """Returns the opcodes in the assembly of device.h, after the preprocessor has expanded its
    macros."""
    found = set()
    for arch, name in (900, "SM90"), (1000, "SM100"), (1200, "SM120"):
        text = subprocess.run(["c++", "-E", "-P", "-xc++", f"-D__CUDA_ARCH__={arch}",
                               f"-D__CUDA_ARCH_FEAT_{name}_ALL", header],
                              capture_output=True, text=True, check=True).stdout
        text = re.sub(r'"\s*"', "", text)
        found.update(re.findall(
            r"(?<![.\w])((?:mma|wgmma|mbarrier|fence|mapa|prefetch|setmaxnreg|ldmatrix|cp|barrier|"
            r"tcgen05|elect)\.[a-z0-9_.:X]+[a-z0-9])", text))
    return found


def main():
    kernels, includes, folder = sys.argv[1:]
    for written, headers in FUNCTIONS.items():
        with open(f"{folder}/{written}", "w", encoding="utf-8") as out:
            for header, names in headers.items():
                with open(f"{kernels}/{header}", encoding="utf-8") as file:
                    text = file.read()
                out.writelines(re.findall(r"^enum \{ PRODUCT_[^}]*\};\n", text, re.M))
                out.writelines(function(text, name) for name in names)
    ours = instructions(f"{kernels}/device.h")
    theirs = ""
    for name in includes.split():
        with open(name, encoding="utf-8", errors="replace") as file:
            theirs += file.read()
    theirs = re.sub(r'"\s*\n?\s*"', "", theirs)
    for ours_word, their_word in SPELLED:
        ours = {x.replace(ours_word, their_word) for x in ours}
    missing = sorted(x for x in ours if x not in theirs)
    print(f"{len(ours)} instructions, not in CUTLASS: {' '.join(missing) or 'none'}")
    if missing:
        sys.exit(1)


main()
