#!/usr/bin/env bash
# mpirun alone starts ringzero's programs.   mpirun_test.sh openmpi|mpich
set -euo pipefail
. tests/launchers/common.sh
kind=$1
command -v "mpirun.$kind" >/dev/null || skip "mpirun.$kind" "no mpirun.$kind: tools/setup --with peers"

run() {
  local ranks=$1
  shift
  local options=()
  if [ "$kind" = openmpi ]; then
    options=(--oversubscribe)
    [ "$(id -u)" != 0 ] || options+=(--allow-run-as-root)
  fi
  timeout 300 "mpirun.$kind" "${options[@]}" -n "$ranks" "$@" </dev/null
}

three_programs run

# Scripts may lie between; what the ranks of a job are told in RZ_* goes first.
# shellcheck disable=SC2016
all_ranks 2 run 2 sh -c '"$0"; true' "$ALL_REDUCE"
[ "$(RZ_WORLD_SIZE=1 run 2 "$ALL_REDUCE" | grep -c 'rank 0 of 1: sum 1$')" = 2 ] ||
  fail "RZ_WORLD_SIZE=1 is no world of one"
[ "$(run 1 "$ALL_REDUCE")" = "rank 0 of 1: sum 1" ] || fail "one rank is no world of one"

# Two jobs at once do not meet.
run 2 "$ALL_REDUCE" >"$TEST_TMPDIR/other" &
other=$!
all_ranks 3 run 3 "$ALL_REDUCE"
wait "$other"
all_ranks 2 cat "$TEST_TMPDIR/other"

# A rank that fails is named to the others.
# shellcheck disable=SC2016
if run 2 sh -c '
    if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ]; then exec "$@" --reference /none; fi
    exec "$@"' sh "$TRAIN" "${train_flags[@]}" >"$TEST_TMPDIR/failed" 2>&1; then
  fail "a job has succeeded whose rank 0 failed"
fi
grep -q '/none' "$TEST_TMPDIR/failed" || { cat "$TEST_TMPDIR/failed"; fail "not said why"; }

# Ranks on several hosts meet where RZ_RENDEZVOUS says; without it they say so.
export OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2
if "$ALL_REDUCE" 2>"$TEST_TMPDIR/hosts"; then fail "met over hosts"; fi
grep 'several hosts.*set RZ_RENDEZVOUS=' "$TEST_TMPDIR/hosts" || fail "not said what to do"
