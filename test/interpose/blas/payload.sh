#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# NaN payloads propagate from operands to results under every contract, and R's NA stays NA.
# Overflow and invalid operations raise flags.
library=$1
here=$(dirname "$0")
. "$here/expect.sh"
before="env LD_PRELOAD=$library LIMBER_TRUST_BLAS=0"

blas='import numpy, ctypes; ctypes.CDLL("libblas.so.3", mode=ctypes.RTLD_GLOBAL)'
if $python -c "$blas" 2> /dev/null; then
    for contract in correct bits=50 bits=20 reproducible; do
        expect 0 '^184 checks, 0 failed' $before LIMBER_CONTRACT=$contract LIMBER_BACKEND=interp \
            $python "$here/payload.py"
    done
else
    echo "no NumPy, or no BLAS: skipped"
fi
if command -v Rscript > /dev/null; then
    cat > "$work/na.R" <<'END'
options(matprod = "blas")
x <- matrix(c(1, 0, NA, 1, NaN, 2), 3, 2)
y <- matrix(1, 2, 2)
z <- x %*% y
k <- crossprod(matrix(c(1, NA, 3, 4), 2, 2))
cat(sum(is.na(z) & !is.nan(z)), sum(is.nan(z)), sum(is.na(k) & !is.nan(k)), "\n")
END
    expect 0 '^2 2 3 $' $before LIMBER_CONTRACT=correct Rscript --vanilla "$work/na.R"
else
    echo "no R: not tried"
fi
finish
