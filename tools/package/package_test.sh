#!/usr/bin/env bash
# What is in the archives, and that the .deb's library is used where it lies.
#   package_test.sh TAR DEB
set -euo pipefail
tar=$1 deb=$2
triplet=$(gcc -print-multiarch)

listed=$(tar -tzf "$tar")
for path in bin/rz_run bin/rz_rendezvous lib/libringzero.so.0.1 lib/ringzero/libringzero_core.so \
  include/ringzero.h lib/pkgconfig/ringzero.pc lib/cmake/ringzero/ringzeroConfig.cmake \
  lib/systemd/system/rz_rendezvous.service share/doc/ringzero/LICENSE; do
  grep -q "^ringzero-[0-9.]*/$path$" <<< "$listed" || { echo "no $path in $tar"; exit 1; }
done

dpkg-deb --field "$deb" Depends | grep -q 'libc6.*libgrpc++.*libprotobuf.*libucx0.*zlib1g'
root=$TEST_TMPDIR/root
dpkg-deb --extract "$deb" "$root"
if readelf -d "$root/usr/lib/$triplet/libringzero.so" | grep -q 'NEEDED.*lib[atu]b*san'; then
  echo "skipped: the library has a sanitizer, which a plain program cannot load"
  exit 0
fi
gcc -std=c11 -Werror "$root/usr/share/doc/ringzero/examples/all_reduce.c" -o "$TEST_TMPDIR/program" \
  -I "$root/usr/include" -L "$root/usr/lib/$triplet" -lringzero
export LD_LIBRARY_PATH=$root/usr/lib/$triplet
"$root/usr/bin/rz_run" -n 2 -- "$TEST_TMPDIR/program"
export PKG_CONFIG_PATH=$root/usr/lib/$triplet/pkgconfig
[ "$(realpath "$(pkg-config --variable=libdir ringzero)")" = "$(realpath "$LD_LIBRARY_PATH")" ]
