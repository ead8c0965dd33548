#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Under `reproducible`, every routine except trsm sums in the documented order, at every size and
# with any number of threads.
library=$1
here=$(dirname "$0")
. "$here/expect.sh"
needs_python
reference=$(reference_library)
[ -n "$reference" ] || exit 0
before="env LD_PRELOAD=$library:$reference LIMBER_CONTRACT=reproducible"

for threads in 1 2; do
    expect 0 '^[0-9]{4,} checks, 0 failed' $before LIMBER_THREADS=$threads LIMBER_VERBOSE=1 \
        python3 "$here/order.py"
    lines 0 'left to the BLAS'
    lines 4 'dgemm_ 2 x 3 x 2 reproducible, by native'
done
# the BLAS itself sums in another order in some routine
expect 0 ' checks, [1-9][0-9]* failed' env LD_PRELOAD="$reference" python3 "$here/order.py"

# Overflow and underflow as in IEEE arithmetic do not break the contract.
cat > "$work/sums.py" <<'END'
import json, sys
rows = [c for c in json.load(open(sys.argv[1]))["calls"] if "broken" in c]
print(sum(r["checked_elements"] for r in rows), "elements,",
      sum(r["broken"] for r in rows), "broken")
END
for contract in reproducible native bits=20 correct; do
    for seed in 1 2; do
        expect 0 '^60 products' env LD_PRELOAD=$library:$reference LIMBER_CONTRACT=$contract \
            LIMBER_TRUST_BLAS=0 LIMBER_CHECK=20 LIMBER_REPORT="$work/range.json" \
            python3 "$here/range.py" $seed
        lines 0 'does not keep the contract'
        expect 0 '^[0-9]{2,} elements, 0 broken' python3 "$work/sums.py" "$work/range.json"
    done
done

cat > "$work/trsm.py" <<'END'
import ctypes
blas, one = ctypes.CDLL(None), ctypes.byref(ctypes.c_double(1))
n = ctypes.byref(ctypes.c_int(64))
a = (ctypes.c_double * 4096)(*[1 + i % 65 % 64 * 1e-3 for i in range(4096)])
letter = [ctypes.c_char_p(c) for c in (b"L", b"U", b"N", b"N")]
blas.dtrsm_(*letter, n, n, one, a, n, (ctypes.c_double * 4096)(), n, *[ctypes.c_size_t(1)] * 4)
END
expect 0 'dtrsm_ 64 x 64 x 64 reproducible, by native' $before LIMBER_VERBOSE=1 \
    python3 "$work/trsm.py"
expect 0 'promise of the scheme native' $before LIMBER_SCHEME=ozaki2 python3 "$work/trsm.py"
finish
