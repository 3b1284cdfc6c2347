#!/usr/bin/env bash
# What the shared libraries show: libringzero.so exactly the functions of ringzero.h, its core nothing
# of gRPC, Protocol Buffers, Abseil or UCX.
#   exports_test.sh LIBRARY CORE NAMES
set -euo pipefail
source tests/skip.sh
library=$1 core=$2 names=$3
failed=no
skip_with_sanitizer exports "$library" # which shows and needs more

exported() { nm -D --defined-only "$1" | awk '{print $3}' | sed 's/@.*//' | sort; }

if ! diff <(exported "$library") <(sort "$names"); then
  echo "libringzero.so (<) does not show what ringzero.h declares (>)"
  failed=yes
fi
# libstdc++'s templates are shown whatever the linker is told.
if exported "$core" | grep -v '^rz_\|^_ZN\?K\?S\|^_ZNK\?St'; then
  echo "the core shows the above"
  failed=yes
fi
if readelf -d "$library" | grep NEEDED | grep -v 'libc\.so\|libdl\|libpthread\|ld-linux'; then
  echo "libringzero.so needs the above, and is to need the C library alone"
  failed=yes
fi
[ "$failed" = no ]
