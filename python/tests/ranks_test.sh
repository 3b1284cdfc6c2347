#!/usr/bin/env bash
# Runs a Python program as ranks of a job, for one number of ranks after the other.
#   ranks_test.sh RZ_RUN LIBRARY PROGRAM RANKS... [-- MODULE...]
# Skipped, and counted so, where /usr/bin/python3 lacks one of the modules, and with a sanitizer.
set -euo pipefail
rz_run=$1 library=$2 program=$3
shift 3
export RZ_LIBRARY=$PWD/$library PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
source tests/skip.sh

ranks=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do ranks+=("$1"); shift; done
skip_without_modules "$program" "${@:2}"
skip_with_sanitizer "$program" "$library"
for count in "${ranks[@]}"; do
  echo "$program with $count ranks"
  "$rz_run" -n "$count" -- /usr/bin/python3 "$program"
done
