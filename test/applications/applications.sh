#!/bin/sh
# Runs the programs of examples/ with small sizes, on Limber and on NumPy's BLAS.  The environment
# names the library.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
examples="$here/../../examples"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH="$here/../../bindings/python" PYTHONDONTWRITEBYTECODE=1
export LIMBER_CACHE_DIR="$work/cache"

. "$here/../support/python.sh"
python=$(python_with numpy)
[ -n "$python" ] || { echo "no NumPy: skipped"; exit 77; }

$python "$here/test_circuits.py"
if [ -f "${LIMBER_DATA:-}/qasm/qpe_n9.qasm" ]; then
    for circuit in dnn_n8 hhl_n7 ising_n10 multiplier_n15 qaoa_n6 qpe_n9 sat_n11; do
        $python "$examples/circuits/circuit.py" "$LIMBER_DATA/qasm/$circuit.qasm" > "$work/$circuit"
        cat "$work/$circuit"
        # sums are exact in binary128, and FP16 has the largest error
        [ "$(awk '$1 == "binary128" { print $4 }' "$work/$circuit")" = 0 ]
        awk '$1 == "f16" { half = $4 } $1 == "fp32-f" { limbs = $4 } $1 == "f32" { plain = $4 }
             END { exit !(plain <= 1e-6 && limbs <= 1e-6 && limbs <= half) }' "$work/$circuit"
    done
    grep -q '^|011011000000100>  +1.000000 +0.000000i' "$work/multiplier_n15"
else
    echo "no circuits in LIMBER_DATA: those of examples/circuits are skipped"
fi

# HPL's test must pass with every contract.  Elimination in FP32 needs refinement.
$python "$examples/lu/lu.py" --n 500 --json > "$work/lu"
cat "$work/lu"
$python - "$work/lu" << 'END'
import json, sys
rows = {row["by"]: row for row in map(json.loads, open(sys.argv[1]))}
assert set(rows) == {"native", "int8", "correct", "refined", "refined-bits", "blas", "lapack"}
assert all(row["passed"] and 0 < row["hpl"] < 1 for row in rows.values())
assert all((row["corrections"] > 0) == by.startswith("refined") for by, row in rows.items())
assert rows["int8"]["computed_by"].startswith("ozaki") and rows["blas"]["computed_by"] == "BLAS"
END
$python "$examples/lu/lu.py" --n 1 --by native,refined
! $python "$examples/lu/lu.py" --n 0 2> "$work/log"
grep -q -e '--n: a whole number from 1 on' "$work/log"
! $python "$examples/lu/lu.py" --seed -1 2> "$work/log"
grep -q -e '--seed: a whole number from 0 on' "$work/log"
! $python "$examples/lu/lu.py" --by gpu 2> "$work/log"
grep -q -e '--by: gpu is none of' "$work/log"

training="$examples/training"
torch=$(python_with torch,numpy ${LIMBER_TEST_TORCH:-})
${torch:-$python} "$here/test_apps.py"
if [ -n "$torch" ]; then
    # Long sums in FP8 have larger errors than short ones, and sums in groups smaller ones.
    $torch "$training/quantised_outside.py" --sizes 64,256 --steps 1 --json \
        --picture "$work/d.svg" > "$work/outside"
    cat "$work/outside"
    grep -q '</svg>' "$work/d.svg"
    $torch - "$work/outside" << 'END'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
for by in {row["by"] for row in rows if "n" in row}:
    far = {(row["n"], row["group"]): row["distance"] for row in rows
           if "n" in row and row["by"] == by}
    assert far[64, 16] < far[64, 1] < far[256, 1] and far[64, 16] < far[256, 16] < far[256, 1], far
steps = {row["by"]: row["seconds"] for row in rows if "n" not in row}
assert steps["PyTorch, FP32"] > 0 and steps["h100-e5m2"] > 0 and len(steps) >= 4, steps
END
    ! $torch "$training/quantised_outside.py" --steps -1 2> "$work/log"
    grep -q -e '--steps: a whole number from 0 on' "$work/log"
    ! $torch "$training/quantised_outside.py" --sizes 64,x 2> "$work/log"
    grep -q -e "--sizes: invalid list of numbers value: '64,x'" "$work/log"
    $torch "$here/test_encoder.py"
    $torch "$here/test_resnet.py"
    if [ -f "${LIMBER_DATA:-}/mnist/t10k-images-idx3-ubyte.gz" ]; then
        # The network must train with eight fraction bits, and must not with one.
        $torch "$training/accumulators.py" --count 2000 --bits 1,8 --groups 0 --seeds 1 \
            --json --picture "$work/a.svg" > "$work/trained"
        cat "$work/trained"
        grep -q '</svg>' "$work/a.svg"
        $torch - "$work/trained" << 'END'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
right = {row["accumulator"]: row["mean"] for row in rows}
assert all(0 < row["seconds_in_products"] <= row["seconds_a_step"] for row in rows), rows
assert right["(1,8,1)"] < 50 < 70 < right["(1,8,8)"] and right["FP32"] > 70, right
END
        ! $torch "$training/accumulators.py" --groups -3 2> "$work/log"
        grep -q 'accumulators.py: .*group: .-3' "$work/log"
        ! $torch "$training/accumulators.py" --picture /nowhere/a.svg 2> "$work/log"
        grep -q -e '--picture: /nowhere/a.svg: /nowhere: no such folder' "$work/log"
        ! $torch "$training/accumulators.py" --bits 99 2> "$work/log"
        grep -q 'accumulators.py: .*99' "$work/log"
        ! $torch "$training/accumulators.py" --count 3 2> "$work/log"
        grep -q -e '--count is at least' "$work/log"
    fi
else
    echo "no PyTorch: examples/training is skipped"
fi

digits="$examples/digits"
if [ -f "${LIMBER_DATA:-}/mnist/t10k-images-idx3-ubyte.gz" ]; then
    for program in components neighbours clusters; do
        for blas in f64 f32; do
            $python "$digits/$program.py" --count 600 --blas $blas > "$work/$program.$blas"
            cat "$work/$program.$blas"
        done
        $python "$digits/$program.py" --count 600 --picture "$work/$program.png" \
            > "$work/$program"
        grep -q '^Limber, exact: ' "$work/$program"
        # FP64 sums are exact here, so that the result (the second line) is the same
        [ "$(sed -n 2p "$work/$program")" = "$(sed -n 2p "$work/$program.f64")" ]
        file=$(od -A n -t x1 -N 8 "$work/$program.png" | tr -d ' ')
        [ "$file" = 89504e470d0a1a0a ]
    done
    grep -q 'its largest element: 0$' "$work/components.f64"
    grep -q 'its largest element: [1-9]' "$work/components.f32"
    grep -q '^0 images have other neighbours' "$work/neighbours.f64"
    grep -q '^0 images are in other clusters' "$work/clusters.f64"
    ! $python "$digits/neighbours.py" --count 600 --k 500 2> "$work/log"
    grep -q -e '--k 500: 480 known images' "$work/log"
    ! $python "$digits/clusters.py" --count 0 2> "$work/log"
    grep -q -e '--count: a whole number from 1 on' "$work/log"
    ! $python "$digits/clusters.py" --data "$work" 2> "$work/log"
    grep -q 't10k-images-idx3-ubyte.gz: No such file' "$work/log"
    ! $python "$digits/clusters.py" --picture "$work/none/x.png" 2> "$work/log"
    grep -q -e '--picture: .*/none: no such folder' "$work/log"
    mkdir "$work/mnist"
    images=$LIMBER_DATA/mnist/t10k-images-idx3-ubyte.gz
    cp "$LIMBER_DATA/mnist/t10k-labels-idx1-ubyte.gz" "$work/mnist"
    for made in 'head -c 1000 "$images"' 'echo no | gzip' \
        'gzip -cd "$images" | head -c 5000 | gzip' \
        'cat "$LIMBER_DATA/mnist/t10k-labels-idx1-ubyte.gz"' 'printf ""'; do
        eval "$made" > "$work/mnist/t10k-images-idx3-ubyte.gz"
        ! $python "$digits/clusters.py" --data "$work" 2> "$work/log"
        [ "$(wc -l < "$work/log")" = 1 ]
        grep -q '^/.*t10k-images-idx3-ubyte.gz: ' "$work/log"
    done
else
    echo "no MNIST images in LIMBER_DATA: examples/digits are skipped"
fi
