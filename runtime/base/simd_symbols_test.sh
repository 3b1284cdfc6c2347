#!/bin/bash
# The archives of a simd_library() must define nothing that the linker could take for other code: no
# weak symbol (an inline function or a template of a shared header) and no static initializer, which
# would run AVX-512 code on processors that lack it. A reference to a personality routine, which
# instrumented code brings along, is data.
set -euo pipefail
checked=0
for archive in "$@"; do
  symbols="$(nm --demangle "$archive" | grep --invert-match ' DW\.ref\.')"
  if grep --extended-regexp ' [WVu] |_GLOBAL__sub_I_rz|_GLOBAL__sub_I__Z' <<<"$symbols"; then
    echo "$archive defines the symbols above: keep them out of sources compiled once a level"
    exit 1
  fi
  grep --quiet 'rz::simd_' <<<"$symbols"
  checked=$((checked + 1))
done
[[ $checked -ge 3 ]]
