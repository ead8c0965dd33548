# SPDX-License-Identifier: BSD-3-Clause
"""Statistics of products, by layer and step."""
import itertools
import json
import math
import re
import threading
import time
import weakref

from .._simulation import statistics
from .._whole import write_whole
from ..chart import chart
from ..errors import BadArgument
from ._config import ROLES

_tables: "weakref.WeakValueDictionary[int, Table]" = weakref.WeakValueDictionary()
_ids = itertools.count(1)
QUANTITIES = ("swamped", "partly_swamped", "underflow", "overflow", "retention", "predicted",
              "distance", "mean", "variance", "largest", "seconds")


_SEED = re.compile(r"\bseed=(\d+)")


def table_of(run):
    """The Table of an Injection; None: it was deleted or never existed."""
    return _tables.get(run)


def _is_number(value):
    """Whether there is a value, and it is finite."""
    return value is not None and math.isfinite(value)


class _Bound:
    """Stands for a Context in _simulation.statistics; any function replaces matmul."""

    def __init__(self, call):
        self.matmul = call


class Table:
    """The rows of one Injection.  Thread-safe."""

    def __init__(self, statistics, every):
        self.statistics, self.every, self.step = statistics, every, 0
        self.rows, self.draws, self._lock = [], itertools.count(), threading.Lock()
        self.id = next(_ids)
        _tables[self.id] = self

    def contract_now(self, contract):
        """The contract with a new seed if its unit rounds at random, so that each product has other
        random numbers."""
        if "seed=" not in contract:
            return contract
        turn = next(self.draws)
        return _SEED.sub(lambda seed: f"seed={(int(seed[1]) + 1000003 * turn) % 2 ** 62}", contract)

    def wants(self):
        """Whether this step's statistics are kept."""
        return self.statistics and self.step % self.every == 0

    def note(self, layer, role, call, operands, sizes, options):
        """Computes a product and records its statistics."""
        start = time.perf_counter()
        row = {"step": self.step, "layer": layer, "product": ROLES[role],
               "contract": options["contract"]}
        if options["contract"].startswith("simulate="):
            found = statistics(_Bound(call), *operands, options["contract"][9:], True, False,
                               scheme=options["scheme"], out=options["out"], **sizes)[1]
            share = 1 / found.nonzero if found.nonzero else 0
            row.update(products=found.products, swamped=found.swamped * share,
                       partly_swamped=found.partly_swamped * share,
                       underflow=found.mul_underflow * share,
                       overflow=(found.mul_overflow + found.sum_overflow) * share,
                       retention=found.retention, predicted=found.predicted,
                       distance=found.distance, mean=found.result.mean,
                       variance=found.result.variance, largest=found.result.largest)
        else:
            _, report = call(*operands, **sizes, **options, report=True)
            row.update(scheme=report.scheme, bound=report.bound)
        row["seconds"] = time.perf_counter() - start
        with self._lock:
            self.rows.append(row)

    def means(self):
        """A row for each layer and product with the means over all its products."""
        groups = {}
        with self._lock:
            for row in self.rows:
                groups.setdefault((row["layer"], row["product"]), []).append(row)
        found = []
        for (layer, product), rows in groups.items():
            made = {"layer": layer, "product": product, "contract": rows[-1]["contract"],
                    "calls": len(rows)}
            for name in QUANTITIES:
                values = [row[name] for row in rows if _is_number(row.get(name))]
                if values:
                    made[name] = sum(values) / len(values)
            found.append(made)
        return found

    def text(self):
        """The means as a table for people."""
        rows = self.means()
        if not rows:
            return "no statistics: they are kept of products once the model has run"
        shown = ("swamped", "partly_swamped", "underflow", "overflow", "retention", "seconds")
        width = max(len(row["layer"]) for row in rows)
        lines = [f"{'layer':{width}}  {'product':11} calls " +
                 " ".join(f"{name:>14}" for name in shown)]
        for row in rows:
            numbers = (f"{row[name]:14.4g}" if name in row else f"{'-':>14}" for name in shown)
            lines.append(f"{row['layer']:{width}}  {row['product']:11} {row['calls']:5} " +
                         " ".join(numbers))
        return "\n".join(lines)

    def write(self, path):
        """Writes JSON lines with a step, a tag layer/product/quantity, and a value."""
        with self._lock:
            rows = list(self.rows)
        lines = [json.dumps({"step": row["step"], "value": row[name],
                             "tag": f"{row['layer']}/{row['product']}/{name}"}) + "\n"
                 for row in rows for name in QUANTITIES if _is_number(row.get(name))]
        write_whole(path, "".join(lines))

    def picture(self, path, quantity, product):
        """Draws a quantity over the steps, one line for each layer."""
        if quantity not in QUANTITIES:
            raise BadArgument(f"quantity = {quantity!r} is none of {', '.join(QUANTITIES)}")
        if product not in ROLES:
            raise BadArgument(f"product = {product!r} is none of {', '.join(ROLES)}")
        with self._lock:
            rows = [row for row in self.rows
                    if row["product"] == product and _is_number(row.get(quantity))]
        if not rows:
            raise BadArgument(f"no {quantity} of {product} products was kept")
        steps = sorted({row["step"] for row in rows})
        series = {}
        for row in rows:
            series.setdefault(row["layer"], {}).setdefault(row["step"], []).append(row[quantity])
        chart(path, f"{quantity} of {product} products", "step", quantity, steps,
              {layer: [sum(at[s]) / len(at[s]) if s in at else None for s in steps]
               for layer, at in series.items()}, lines=True)

