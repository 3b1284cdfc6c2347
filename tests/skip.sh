# shellcheck shell=bash
# For shell tests, which source it: what cannot be tested here is said, and counted as skipped.

# skip NAME WHY: ends the test NAME, skipped.
skip() {
  echo "skipped: $2"
  cat > "${XML_OUTPUT_FILE:-/dev/null}" <<XML
<testsuites tests="1" failures="0" errors="0">
  <testsuite name="$1" tests="1" skipped="1"><testcase name="$1" result="skipped"/></testsuite>
</testsuites>
XML
  exit 0
}

# skip_without_modules NAME MODULE...: ends it so where /usr/bin/python3 lacks one of the modules.
skip_without_modules() {
  local module
  for module in "${@:2}"; do
    /usr/bin/python3 -c "import $module" 2>/dev/null ||
      skip "$1" "/usr/bin/python3 has no $module: tools/setup --with torch"
  done
}

# skip_with_sanitizer NAME LIBRARY: ends it so where LIBRARY has a sanitizer, which would have to be
# the first library of a process.
skip_with_sanitizer() {
  if readelf -d "$2" | grep 'NEEDED.*lib[atu]b*san' > /dev/null; then
    skip "$1" "a sanitizer has to be the first in a process"
  fi
}
