#!/usr/bin/env bash
# The wheel installs without a network and is found without RZ_LIBRARY; what is missing is said.
#   wheel_test.sh WHEEL RZ_RUN
set -euo pipefail
wheel=$1 rz_run=$2
unset RZ_LIBRARY PYTHONPATH
site=$TEST_TMPDIR/site
export PYTHONDONTWRITEBYTECODE=1
source tests/skip.sh

/usr/bin/python3 -m zipfile -e "$wheel" "$site"
skip_with_sanitizer wheel "$site/ringzero/libringzero.so"
(cd "$site" && /usr/bin/python3 - <<'PY'
import base64, hashlib, pathlib
for line in pathlib.Path(next(pathlib.Path(".").glob("*.dist-info/RECORD"))).read_text().split():
    name, digest, _ = line.split(",")
    if digest:
        found = base64.urlsafe_b64encode(hashlib.sha256(pathlib.Path(name).read_bytes()).digest())
        assert digest == "sha256=" + found.decode().rstrip("="), name
PY
)
if /usr/bin/python3 -m pip --version >/dev/null 2>&1; then
  rm -r "$site"
  HOME=$TEST_TMPDIR /usr/bin/python3 -m pip install -q --no-index --no-deps --no-cache-dir \
    --disable-pip-version-check --target "$site" "$wheel"
fi

program='import array, ringzero as rz
assert rz.version() == rz.__version__, (rz.version(), rz.__version__)
rz.init()
print("sum", rz.all_reduce(array.array("d", [1.0]))[0])'
out=$(PYTHONPATH=$site "$rz_run" -n 3 -- /usr/bin/python3 -c "$program")
[ "$(grep -c 'sum 3.0' <<<"$out")" = 3 ] || { echo "$out"; exit 1; }
out=$(PYTHONPATH=$site /usr/bin/python3 -c "$program")
[ "$out" = "sum 1.0" ] || { echo "$out"; exit 1; }

expect_error() {
  if out=$(PYTHONPATH=$site /usr/bin/python3 -c "$program" 2>&1) || ! grep -q "$1" <<<"$out"; then
    echo "expected: $1"; echo "$out"; exit 1
  fi
}
export RZ_LIBRARY=/nowhere/libringzero.so
expect_error "LibraryError: RZ_LIBRARY is '/nowhere/libringzero.so', and there is no"
unset RZ_LIBRARY
mv "$site/ringzero/libringzero_core.so" "$site"
expect_error "LibraryError: .*cannot load its other half: .*ringzero/libringzero_core.so: .*; it has to lie at one of these"
echo nothing >"$site/ringzero/libringzero.so"
expect_error "LibraryError: cannot load .*libringzero.so: .* set RZ_LIBRARY"
