#!/usr/bin/env bash
# Ranks on three emulated hosts meet through the store alone, also in a group without its host.
#   torch_distributed_hosts_test.sh NETNS_HOSTS LIBRARY PROGRAM
# Skipped, and counted so, without torch, with a sanitizer, and where hosts cannot be made.
set -euo pipefail
netns_hosts=$1 library=$2 program=$3
export RZ_LIBRARY=$PWD/$library PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
source tests/skip.sh

skip_without_modules torch_distributed_hosts torch
skip_with_sanitizer torch_distributed_hosts "$library"

status=0
"$netns_hosts" 3 -- /usr/bin/python3 "$PWD/$program" || status=$?
[ "$status" -ne 77 ] || skip torch_distributed_hosts "hosts cannot be made here"
exit "$status"
