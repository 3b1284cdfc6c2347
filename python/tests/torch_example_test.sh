#!/usr/bin/env bash
# The example trains under rz_run and in torchrun's environment, and its loss falls.
#   torch_example_test.sh RZ_RUN LIBRARY PROGRAM
set -euo pipefail
rz_run=$1 library=$2 program=$3
export RZ_LIBRARY=$PWD/$library PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
source tests/skip.sh

skip_without_modules torch_example torch
skip_with_sanitizer torch_example "$library"

check() {
  echo "$1"
  awk '/loss/ { loss[++n] = $0; sub(/.*loss /, "", loss[n]); sub(/ .*/, "", loss[n]) }
       END { exit !(n == 2 && loss[2] < loss[1] - 1) }' <<<"$1"
  [ "$(grep -c 'of 2 holds' <<<"$1")" = 2 ]
}

for stage in 1 3; do
  check "$("$rz_run" -n 2 -- /usr/bin/python3 "$program" --stage "$stage" --steps 20 --batch 1)"
done

# What torchrun sets; the program joins without RZ_RENDEZVOUS.
port=$(/usr/bin/python3 python/tests/free_ports.py)
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port
RANK=1 LOCAL_RANK=1 /usr/bin/python3 "$program" --stage 2 --steps 20 --batch 1 >"$TEST_TMPDIR/other" &
other=$!
output=$(RANK=0 LOCAL_RANK=0 /usr/bin/python3 "$program" --stage 2 --steps 20 --batch 1)
wait "$other"
check "$output
$(cat "$TEST_TMPDIR/other")"
