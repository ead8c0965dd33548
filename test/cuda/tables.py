# SPDX-License-Identifier: BSD-3-Clause
"""Renews the tables of docs/measured/gpu-estimates.md that come from compiled kernels:
tables.py NVDISASM FIGURES CUBINS PAGE

FIGURES is the file that `LIMBER_CUBIN_TABLE=FIGURES LIMBER_CUBIN_DIR=CUBINS test_cubin` writes,
CUBINS its folder.  Rows of the page keep their order and their names; numbers are replaced, and
kernels without a row are named."""
import re
import sys

import sass

# what the page calls a kernel, and the name of its file
KERNELS = {
    "fp32-f, f32, alpha and beta": "fp32-f-f32",
    "fp32-b, f32": "fp32-b-f32",
    "fp32-m, f32": "fp32-m-f32",
    "fp32-f, f32, inside": "fp32-f-f32-inside",
    "fp32-m, f32, inside": "fp32-m-f32-inside",
    "fp32-f, f32, convolution, alpha and beta": "fp32-f-f32-forward",
    "tensor-e5m2, f32": "tensor-e5m2-e5m2",
    "integer, i8, with sums of earlier parts of k": "integer-i8",
    "integer, i8": "integer-i8",
    "ozaki1-i8, f64": "ozaki1-i8-f64",
    "ozaki2, f64: remainders, from the last product on": "ozaki2-f64",
    "ozaki2-f16, f64: the same": "ozaki2-f16-f64",
    "native, f64, alpha and beta": "native-f64",
    "native, f32, alpha and beta": "native-f32",
}


def registers(figures):
    """{scheme: {machine: text}} of the kernels that multiply."""
    found = {}
    with open(figures, encoding="utf-8") as file:
        for line in file:
            cells = [x.strip() for x in line.strip().strip("|").split("|")]
            if len(cells) == 6 and cells[2] in ("multiply", "exact") and \
                    not re.search("convolution|gradient", cells[0]):
                found.setdefault(cells[0], {})[cells[1]] = \
                    f"{cells[3]}, {int(cells[5]) // 1024} KiB"
    return found


def register_rows(machines, rows, figures):
    """The rows of the table of registers, with new numbers."""
    found = registers(figures)
    out = []
    for row in rows:
        scheme = row.split("|")[1].strip()
        mine = found.pop(scheme.replace("`", ""), None)
        if mine is None:
            sys.exit(f"{figures} has no {scheme}")
        out.append("| " + " | ".join([scheme] + [mine.get(m, "") for m in machines]) + " |")
    for scheme in found:
        print(f"{scheme} has no row", file=sys.stderr)
    return out


def instruction_row(row, nvdisasm, cubins):
    """A row of the table of instructions, with new numbers."""
    label, machine = [x.strip() for x in row.strip("|").split("|")][:2]
    name = f"{KERNELS[label]}-{machine}"
    text = sass.disassemble(nvdisasm, sass.digest(nvdisasm), f"{cubins}/{name}.cubin")
    code, _ = sass.functions(text)["limber_multiply"]
    _, each, element = sass.look(name, code)
    shown = [" " if x is None else f" {x:.1f} " for x in (each, element)]
    return f"| {label} | {machine} | {len(code):,} |{shown[0]}|{shown[1]}|"


def main():
    nvdisasm, figures, cubins, page = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        lines = file.read().split("\n")
    i = 0
    while i < len(lines):
        is_registers = lines[i].startswith("| scheme | sm_")
        if is_registers or lines[i].startswith("| kernel | for | instructions"):
            machines = [x.strip() for x in lines[i].strip("|").split("|")][1:]
            first = i + 2
            last = next(j for j in range(first, len(lines)) if not lines[j].startswith("|"))
            rows = lines[first:last]
            lines[first:last] = register_rows(machines, rows, figures) if is_registers else \
                [instruction_row(x, nvdisasm, cubins) for x in rows]
            i = last
        i += 1
    with open(page, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


main()
