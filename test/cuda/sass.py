# SPDX-License-Identifier: BSD-3-Clause
"""Checks the machine code of the kernels of products: sass.py [--table] NVDISASM CUBIN...

Disassembles each cubin, and fails if a kernel breaks a rule:

    memory          Stores and atomic operations are those of global memory.  Where the compiler
                    does not know the address space, it also makes code for shared memory.
    fences          The main loop of products of warpgroups or into tensor memory, from the first
                    product to the last arrival at a barrier, has no fence for the whole GPU: the
                    barriers of its stages suffice.
    tensor memory   There is no loop over threads between products.  The compiler makes one around
                    each product unless it knows that a single thread issues them.
    registers       After a warp has set its number of registers, its code uses no more.
    early launches  From 9.0 on, kernels that multiply or reconstruct C may begin before the
                    previous launch has ended.  They wait for it before they access global memory.
    loads           The loop that loads operands and waits for stages, or commits them, has no
                    division, unless it also cuts elements into limbs: then it may divide to find
                    the operand of a batch.
    main loop       There are few instructions for each product of warpgroups or into tensor memory,
                    and few moves between registers for each product of a warp.
    results         There are few instructions for each element of C from the first to the last
                    store of several elements; for residues, from the last product to the last
                    store.  C that is stored element by element is not counted.
    size            The kernel has few instructions in all.

NOPs are not counted: on 12.0, many follow FP64 instructions.  Prints a line for each kernel, or
rows of a Markdown table.  The folder LIMBER_TEST_CUBINS caches nvdisasm's output, by a hash of the
cubin and of nvdisasm; damaged files are made again."""
import gzip
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zlib

INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)([^;]*);")
TILES = "[HIQ]GMMA|UTC.*MMA"    # products of tiles in shared memory
MOST_AN_ELEMENT = 25        # of binary32 with alpha, beta and three accumulators, and of integers
MOST_OF_BINARY64 = 28
MOST_ON_75 = 32
MOST_A_PRODUCT = 20
MOST_MOVES_A_PRODUCT = 0.25
MOST_MOVES_LATER = 0.5      # for 10.0 and 12.0
MOST_MOVES_OF_DOUBLES = 1   # a product of 16 rows, on 9.0, keeps its unit busy for 16 clocks
MOST_IN_ALL = 5000
MOST_INSIDE = 10000         # for kernels that cut elements into limbs in their main loop


class Instruction:
    """An instruction of a disassembled kernel."""
    def __init__(self, always, op, rest):
        self.always, self.op, self.rest = always, op, rest

    def registers(self):
        """Returns the number of registers that the highest register needs."""
        wide = 4 if ".128" in self.op else 2 if ".64" in self.op or self.op[0] == "D" else 1
        return max([int(r) + wide for r in re.findall(r"\bR(\d+)", self.rest)], default=0)


def digest(path):
    """Returns the SHA-256 hash of a file."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def disassemble(nvdisasm, tool, path):
    """Returns what nvdisasm, whose digest is `tool`, writes about a cubin."""
    folder = os.environ.get("LIMBER_TEST_CUBINS")
    kept = f"{folder}/{hashlib.sha256((tool + digest(path)).encode()).hexdigest()}.sass.kept"
    try:
        with gzip.open(kept, "rt") as file:
            return file.read()
    except (OSError, EOFError, ValueError, zlib.error):
        pass
    text = subprocess.run([nvdisasm, "-c", path], capture_output=True, text=True, check=True).stdout
    # written to a temporary file and renamed, so that the file is always complete
    if folder and os.path.isdir(folder):
        handle, beside = tempfile.mkstemp(prefix=kept.rpartition("/")[2], dir=folder)
        with open(handle, "wb") as file:
            file.write(gzip.compress(text.encode(), 1))
        os.replace(beside, kept)
    return text


def functions(text):
    """Returns each function's instructions in order and the positions of its labels."""
    found, now = {}, None
    for line in text.splitlines():
        if begins := re.match(r"\.text\.(\w+):", line.strip()):
            now = found.setdefault(begins[1], ([], {}))
        elif now is not None and (label := re.match(r"(\.L\w+):", line.strip())):
            now[1][label[1]] = len(now[0])
        elif now is not None and (match := INSTRUCTION.match(line)):
            if match[2] != "NOP":
                now[0].append(Instruction(match[1] is None, match[2], match[3]))
    return found


def reachable(code, labels, start):
    """Returns the instructions that may follow one, up to the next that changes the number of
    registers."""
    seen, ahead = set(), [start]
    while ahead:
        i = ahead.pop()
        if i in seen or i >= len(code) or (i != start and code[i].op.startswith("USETMAXREG")):
            continue
        seen.add(i)
        target = re.search(r"\((\.L\w+)\)", code[i].rest)
        if target and target[1] in labels:
            ahead.append(labels[target[1]])
        if not (code[i].always and re.match("BRA|EXIT|RET", code[i].op)):
            ahead.append(i + 1)
    return seen


def beyond_registers(code, labels):
    """Lists instructions that use more registers than their warps have."""
    wrong = []
    for i, x in enumerate(code):
        if x.op.startswith("USETMAXREG"):
            own = int(re.findall(r"0x[0-9a-f]+|\d+", x.rest)[-1], 0)
            most = max(code[j].registers() for j in reachable(code, labels, i))
            if most > own:
                wrong.append(f"uses {most} registers of {own}")
    return wrong


def look(name, code):
    """Returns (fences, instructions per product, instructions per element)."""
    ops = [x.op for x in code]
    products = [i for i, op in enumerate(ops) if re.match(TILES, op)]
    arrivals = [i for i, op in enumerate(ops) if op.startswith("SYNCS.ARRIVE")]
    fences, each = [], None
    if products:
        fences = [op for op in ops[products[0]:max(arrivals + products)]
                  if re.match(r"MEMBAR.*\.(GPU|SYS)", op)]
        each = (products[-1] - products[0]) / max(1, len(products) - 1)
    # a store has two elements of 64 bits, or two of 32 bits, or eight residues
    for width, elements in ("128", 2), ("64", 8 if name.startswith("ozaki2") else 2):
        stores = [i for i, op in enumerate(ops) if re.match(rf"STG\.E(\.\w+)*\.{width}", op)]
        if len(stores) >= 8 and elements == 8:
            last = max(i for i, op in enumerate(ops[:stores[0]])
                       if re.match(f"[HIDOQ]MMA|{TILES}", op))
            return fences, each, (stores[-1] - last) / (elements * len(stores))
        if len(stores) >= 8:
            return fences, each, (stores[-1] - stores[0]) / (elements * (len(stores) - 1))
    return fences, each, None


def moves(name, code):
    """Counts moves per product of a warp, from the first product to the last."""
    ops = [x.op for x in code]
    products = [i for i, op in enumerate(ops) if re.match("[HIDOQ]MMA", op)]
    if len(products) < 8 or "inside" in name:   # where elements are cut beside products
        return 0
    between = ops[products[0]:products[-1]]
    return sum(bool(re.match(r"(IMAD\.)?MOV", op)) for op in between) / len(products)


def loops_over_threads(code):
    """Counts loops over threads between products into tensor memory."""
    ops = [x.op for x in code]
    products = [i for i, op in enumerate(ops) if re.match("UTC.*MMA", op)]
    return products and sum(op == "BRA.U.ANY" for op in ops[products[0]:products[-1]])


def divisions(name, code, labels):
    """Counts divisions in the smallest loop that fetches and waits, or commits; None without one.
    Before 8.0 loops load, store to shared memory and wait for the block."""
    steps = ("UTMALDG|UBLKCP|LDGSTS", "SYNCS.PHASECHK|LDGDEPBAR")
    if not any(re.match(steps[0], x.op) for x in code):
        steps = ("LDG", "STS", "BAR")
    loops = []
    for i, x in enumerate(code):
        target = re.search(r"\((\.L\w+)\)", x.rest)
        if x.op.startswith("BRA") and target and labels.get(target[1], i + 1) <= i:
            loops.append(code[labels[target[1]]:i + 1])
    for loop in sorted(loops, key=len):
        if all(any(re.match(step, x.op) for x in loop) for step in steps):
            return 0 if "inside" in name else sum(
                x.op.startswith("MUFU.RCP") or re.search("_(div|rem)_", x.rest) is not None
                for x in loop)
    return None


def early(name, kernel, code):
    """Lists memory accesses of a kernel that begins early before it waits for the previous
    launch."""
    if kernel not in ("limber_multiply", "limber_reconstruct") or re.search(r"sm_[78]\d$", name):
        return []
    ops = [x.op for x in code]
    awaited = [i for i, op in enumerate(ops) if op == "ACQBULK"]
    access = r"(LDG?|STG?|ATOMG?|REDG?|LDGSTS|UTMALDG|UBLKCP)(\.|$)"
    return [op for op in ops[:min(awaited, default=len(ops))] if re.match(access, op)]


def main():
    arguments = sys.argv[1:]
    table = arguments[0] == "--table"
    nvdisasm, *paths = arguments[table:]
    looked, wrong, tool = 0, [], digest(nvdisasm)
    for path in paths:
        kernels = functions(disassemble(nvdisasm, tool, path))
        name = path.rpartition("/")[2].removesuffix(".cubin")
        wrong += [f"{name}, {kernel}: {' '.join(found[:3])} before the launch in front is awaited"
                  for kernel, (code, _) in kernels.items() if (found := early(name, kernel, code))]
        code, labels = kernels.get("limber_multiply", ([], {}))
        if not code:
            continue
        fences, each, element = look(name, code)
        looked += each is not None
        if table:
            shown = ["" if x is None else f"{x:.1f}" for x in (each, element)]
            print(f"| {name} | {len(code)} | {shown[0]} | {shown[1]} |")
        else:
            shown = ["none" if x is None else f"{x:.1f}" for x in (each, element)]
            print(f"{name}: {len(code)} instructions, {shown[0]} a product of tiles, "
                  f"{shown[1]} an element, {len(fences)} fences in the main loop")
        found = beyond_registers(code, labels)
        if any(re.match(r"(ST|ATOM|QSPC)(\.|$)", x.op) for x in code):
            found.append("asks what kind of memory an address has")
        if fences:
            found.append("waits for the GPU's memory in its main loop")
        if each is not None and each > MOST_A_PRODUCT:
            found.append(f"has {each:.1f} instructions a product")
        divides = divisions(name, code, labels)
        if divides:
            found.append("divides in the loop that fetches")
        if divides is None and kernel == "limber_multiply" and "accumulator" not in name:
            found.append("has no loop that fetches")
        if loops_over_threads(code):
            found.append("loops over threads to issue products")
        most = MOST_MOVES_LATER if re.search("sm_1..a?$", name) else MOST_MOVES_A_PRODUCT
        if any(x.op.startswith("DMMA.16") for x in code):
            most = MOST_MOVES_OF_DOUBLES
        if moves(name, code) > most:
            found.append(f"has {moves(name, code):.2f} moves a product")
        budget = MOST_ON_75 if name.endswith("sm_75") else \
            MOST_OF_BINARY64 if name.startswith("native-f64") else MOST_AN_ELEMENT
        if element is not None and element > budget:
            found.append(f"has {element:.1f} instructions an element")
        if len(code) > (MOST_INSIDE if "inside" in name else MOST_IN_ALL):
            found.append(f"has {len(code)} instructions")
        wrong += [f"{name} {what}" for what in found]
    assert looked > 0, "no kernel has products of tiles"
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
