# SPDX-License-Identifier: BSD-3-Clause
"""Rules for the machine code of products of warpgroups: sass.py NVDISASM CUBIN...

Between a kernel's first product and the last barrier that it arrives at, which is its main loop,
there is no fence of the GPU's memory: stages pass between copies and products of the asynchronous
unit.  (Fences of a block's own memory are there where threads write a stage.)
Prints a line a kernel."""
import re
import subprocess
import sys

INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")


def functions(nvdisasm, path):
    """Names of functions with their operations in order."""
    text = subprocess.run([nvdisasm, "-c", path], capture_output=True, text=True, check=True).stdout
    found, now = {}, None
    for line in text.splitlines():
        begins = re.match(r"\.text\.(\w+):", line.strip())
        if begins:
            now = found.setdefault(begins[1], [])
        elif now is not None and (match := INSTRUCTION.match(line)):
            now.append(match[1])
    return found


def main():
    nvdisasm, looked, wrong = sys.argv[1], 0, 0
    for path in sys.argv[2:]:
        code = functions(nvdisasm, path).get("limber_multiply", [])
        products = [i for i, op in enumerate(code) if re.match("[HIQ]GMMA", op)]
        arrivals = [i for i, op in enumerate(code) if op.startswith("SYNCS.ARRIVE")]
        if not products:
            continue
        fences = [code[i] for i in range(products[0], max(arrivals + products))
                  if re.match(r"MEMBAR.*\.(GPU|SYS)", code[i])]
        looked, wrong = looked + 1, wrong + bool(fences)
        print(f"{path.rpartition('/')[2]}: {len(code)} instructions, {len(products)} products, "
              f"{len(fences)} fences in the main loop")
    assert looked > 0, "no kernel has products of warpgroups"
    if wrong:
        sys.exit(f"{wrong} of {looked} kernels wait for the GPU's memory in their main loop")


main()
