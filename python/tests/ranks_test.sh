#!/usr/bin/env bash
# Runs a Python program as ranks of a job, for one number of ranks after the other.
#   ranks_test.sh RZ_RUN LIBRARY PROGRAM RANKS... [-- MODULE...]
# Skipped, and counted so, where /usr/bin/python3 lacks one of the modules, and with a sanitizer.
set -euo pipefail
rz_run=$1 library=$2 program=$3
shift 3
export RZ_LIBRARY=$PWD/$library PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1

skip() {
  echo "skipped: $1"
  if [ -n "${XML_OUTPUT_FILE:-}" ]; then
    echo "<testsuites tests=\"1\" failures=\"0\" errors=\"0\"><testsuite><testcase name=\"$program\"" \
      "result=\"skipped\"/></testsuite></testsuites>" >"$XML_OUTPUT_FILE"
  fi
  exit 0
}

ranks=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do ranks+=("$1"); shift; done
for module in "${@:2}"; do
  /usr/bin/python3 -c "import $module" 2>/dev/null ||
    skip "/usr/bin/python3 has no $module: tools/setup --with torch"
done
if readelf -d "$library" | grep -q 'NEEDED.*lib[atu]b*san'; then
  skip "a sanitizer has to be the first in a process"
fi
for count in "${ranks[@]}"; do
  echo "$program with $count ranks"
  "$rz_run" -n "$count" -- /usr/bin/python3 "$program"
done
