# Runs inside gdb: counts function calls from counting_begins() to the first call of run_pack(),
# which packs operands, or of limber_unpacked_run(), which multiplies without packing.
# CALLS_FUNCTIONS names a file with the addresses and names of the functions.
import os

import gdb

calls = []


class Counted(gdb.Breakpoint):
    """A breakpoint that records the call of a function, and stops the program where packing
    begins."""
    def __init__(self, address, name):
        super().__init__("*0x" + address, internal=True)
        self.name = name

    def stop(self):
        """Called by gdb: notes the call; True stops the program, where packing begins."""
        calls.append(self.name)
        return self.name in ("run_pack", "limber_unpacked_run")


for setting in ("pagination off", "confirm off", "breakpoint pending off"):
    gdb.execute("set " + setting)
gdb.execute("break counting_begins")
gdb.execute("run", to_string=True)
if not gdb.selected_inferior().pid:
    gdb.execute("quit 77")
for line in open(os.environ["CALLS_FUNCTIONS"], encoding="ascii"):
    Counted(*line.split())
gdb.execute("continue", to_string=True)
print("calls: %d calls in %d functions" % (len(calls) - 1, len(set(calls)) - 1))
if os.environ.get("CALLS_SHOW"):
    for name in calls:
        print("call: " + name)
gdb.execute("kill")
gdb.execute("quit")
