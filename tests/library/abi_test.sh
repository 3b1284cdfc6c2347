#!/usr/bin/env bash
# That ringzero.h is what programs were compiled with: functions, values, sizes, offsets.
#   abi_test.sh LISTING ABI
set -euo pipefail
if diff <("$1") "$2"; then exit 0; fi
echo "ringzero.h (<) is not tests/data/abi.txt (>). New functions, and new fields at the end of a"
echo "struct that begins with its size, go into the file:"
echo "  bazel run //tests/library:abi_listing > tests/data/abi.txt"
echo "Anything else breaks programs: it takes a new SONAME (library/BUILD) and a new minor version."
exit 1
