#!/usr/bin/env bash
# What is in the archives, and that the .deb's library is used where it lies.
#   package_test.sh MAKE_PACKAGES STAGE TAR DEB
set -euo pipefail
source tests/skip.sh
make_packages=$1 stage=$2 tar=$3 deb=$4
triplet=$(gcc -print-multiarch)

listed=$(tar -tzf "$tar")
for path in bin/rz_run bin/rz_rendezvous lib/libringzero.so.0.1 lib/ringzero/libringzero_core.so \
  include/ringzero.h lib/pkgconfig/ringzero.pc lib/cmake/ringzero/ringzeroConfig.cmake \
  lib/systemd/system/rz_rendezvous.service share/doc/ringzero/LICENSE; do
  grep -q "^ringzero-[0-9.]*/$path$" <<< "$listed" || { echo "no $path in $tar"; exit 1; }
done

# The pages that are installed lead to each other; two things are in the source tree alone.
mkdir "$TEST_TMPDIR/pages"
tar -xzf "$tar" -C "$TEST_TMPDIR/pages" --strip-components=4 --wildcards '*/share/doc/ringzero'
links=$(cd "$TEST_TMPDIR/pages" && grep -roE '\]\([^):]+\)' --include='*.md' .)
[ "$(wc -l <<< "$links")" -gt 50 ] || { echo "only these links were found: $links"; exit 1; }
while IFS=: read -r page link; do
  target=${link#']('} target=${target%)} target=${target%%#*}
  [[ $target =~ ^(ringzero.h|CONTRIBUTING.md)?$ ]] || [ -e "$TEST_TMPDIR/pages/$(dirname "$page")/$target" ] ||
    { echo "$page of the package links to $target, which is not in it"; exit 1; }
done <<< "$links"

# A library that no package has is an error, not a dependency less.
mkdir "$TEST_TMPDIR/bin"
printf '#!/bin/sh\nexit 1\n' > "$TEST_TMPDIR/bin/dpkg-query"
chmod +x "$TEST_TMPDIR/bin/dpkg-query"
cp /bin/true "$TEST_TMPDIR/rz_true"
if said=$(PATH=$TEST_TMPDIR/bin:$PATH "$make_packages" "$stage" 1.0.0 "$TEST_TMPDIR/x.tar.gz" \
  "$TEST_TMPDIR/x.deb" "$TEST_TMPDIR/rz_true" 2>&1) || ! grep -q 'no dependency information found for .*libc' <<< "$said"; then
  echo "expected: no dependency information found for libc: $said"
  exit 1
fi

# Each library is asked for from the version on that has what is used of it.
depends=$(dpkg-deb --field "$deb" Depends)
for library in libc6 'libgrpc++[0-9.]*' 'libisal[0-9]*' 'libprotobuf[0-9]*' 'libucx[0-9]*' zlib1g; do
  grep -qE "(^|, )${library//+/\\+}(t64)? \(>= [0-9]" <<< "$depends" || { echo "no version of $library: $depends"; exit 1; }
done
root=$TEST_TMPDIR/root
dpkg-deb --raw-extract "$deb" "$root"

# What Debian's policy asks of every package, and debsums and dpkg-shlibdeps of this one.
documents=$root/usr/share/doc/ringzero
grep -qx 'License: Apache-2.0' "$documents/copyright"
gunzip -c "$documents/changelog.gz" > "$TEST_TMPDIR/changelog"
version=$(dpkg-deb --field "$deb" Version)
parsed=$(dpkg-parsechangelog -l "$TEST_TMPDIR/changelog" --show-field Version 2>&1)
[ "$parsed" = "$version" ] || { echo "changelog.gz: expected version $version, found '$parsed'"; exit 1; }
(cd "$root" && md5sum --quiet --check DEBIAN/md5sums)
[ "$(wc -l < "$root/DEBIAN/md5sums")" = "$(find "$root/usr" -type f | wc -l)" ]
soname=$(readelf -d "$root/usr/lib/$triplet/libringzero.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$(cat "$root/DEBIAN/shlibs")" = "libringzero ${soname#*.so.} ringzero (>= $version)" ]
for binary in "$root"/usr/bin/rz_* "$root/usr/lib/$triplet"/{,ringzero/}*.so; do
  if readelf -SW "$binary" | grep -F .symtab; then echo "$binary is not stripped"; exit 1; fi
done
[ -z "$(find "$root" ! -newermt 1985-01-01)" ] || { echo "files are older than an archive may have them"; exit 1; }

# Every program has a manual page with all that it says of itself, packed as Debian asks for: at the best level, without
# a name and a time; and man has nothing to say against it.
pages=$root/usr/share/man/man1
for program in "$root"/usr/bin/rz_*; do
  name=${program##*/} page=$pages/${program##*/}.1.gz
  gunzip -c "$page" > "$TEST_TMPDIR/page" || { echo "no manual page of $name"; exit 1; }
  [ "$(od -An -tx1 -N10 "$page" | tr -d ' ')" = 1f8b0800000000000203 ] || { echo "$page: not gzip -9n"; exit 1; }
  for section in NAME SYNOPSIS DESCRIPTION OPTIONS EXAMPLES "EXIT STATUS"; do
    grep -qx ".SH $section" "$TEST_TMPDIR/page" || { echo "$page has no $section"; exit 1; }
  done
  "$program" --help | sed -n 's/^  \(--[a-z_-]*\).*/\1/p' | while read -r flag; do
    grep -qF ".B ${flag//-/\\-}" "$TEST_TMPDIR/page" || { echo "$page has no $flag"; exit 1; }
  done
  if grep -E '/(root|home)/' "$TEST_TMPDIR/page"; then echo "$page has a folder of who built it"; exit 1; fi
  if command -v man > /dev/null; then
    complaints=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 > /dev/null)
    [ -z "$complaints" ] || { echo "$page: $complaints"; exit 1; }
    man -M "$root/usr/share/man" -w "$name" > /dev/null
  fi
done
[ "$(find "$pages" -type f | wc -l)" = "$(find "$root/usr/bin" -name 'rz_*' | wc -l)" ]
skip_with_sanitizer package "$root/usr/lib/$triplet/libringzero.so"
gcc -std=c11 -Werror "$root/usr/share/doc/ringzero/examples/all_reduce.c" -o "$TEST_TMPDIR/program" \
  -I "$root/usr/include" -L "$root/usr/lib/$triplet" -lringzero
export LD_LIBRARY_PATH=$root/usr/lib/$triplet
"$root/usr/bin/rz_run" -n 2 -- "$TEST_TMPDIR/program"
export PKG_CONFIG_PATH=$root/usr/lib/$triplet/pkgconfig
[ "$(realpath "$(pkg-config --variable=libdir ringzero)")" = "$(realpath "$LD_LIBRARY_PATH")" ]
