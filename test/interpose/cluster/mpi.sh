# SPDX-License-Identifier: BSD-3-Clause
# Included by MPI tests: runs ranks of Open MPI on one machine with few cores, without a network, as
# any user, also in containers.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_plm=isolated OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none
OMPI_MCA_mpi_yield_when_idle=1
OPENBLAS_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_plm \
       OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_hwloc_base_binding_policy OMPI_MCA_pml \
       OMPI_MCA_btl OMPI_MCA_btl_vader_single_copy_mechanism OMPI_MCA_mpi_yield_when_idle \
       OPENBLAS_NUM_THREADS

work=$(mktemp -d /tmp/limber.XXXXXX)    # short: Open MPI puts sockets into it
trap 'rm -rf "$work"' EXIT
TMPDIR=$work LIMBER_CACHE_DIR=$work/cache LIMBER_VERBOSE=1
export TMPDIR LIMBER_CACHE_DIR LIMBER_VERBOSE
failures=0 checks=0

if ! command -v mpirun > /dev/null || ! timeout 60 mpirun -np 2 true > "$work/out" 2>&1; then
    echo "SKIPPED: mpirun (openmpi-bin) does not run here: $(cat "$work/out")"
    exit 77
fi

# Runs ranks.  Each writes to $work/RANK; the outputs of all ranks and of mpirun are then joined in
# $work/out.  Separate files are used because mpirun splits lines.
ranks() {   # count, command...
    rm -f "$work"/[0-9]*
    count=$1
    shift
    # shellcheck disable=SC2016
    timeout 120 mpirun -np "$count" \
        sh -c 'to=$1/$OMPI_COMM_WORLD_RANK; shift; exec "$@" > "$to" 2>&1' sh "$work" "$@" > "$work/launcher" 2>&1 < /dev/null
    status=$?
    cat "$work/launcher" "$work"/[0-9]* > "$work/out"
    return $status
}

# Checks that a command succeeds.
check() {   # what, then a command that has to succeed
    what=$1
    shift
    checks=$((checks + 1))
    "$@" && return
    failures=$((failures + 1))
    echo "FAILED: $what"
    tail -n 20 "$work/out"
}

# Prints the numbers of checks and failures; fails if there are failures.
finish() {
    echo "$checks checks, $failures failed"
    [ $failures = 0 ]
}
