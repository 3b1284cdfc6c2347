#!/usr/bin/env bash
# Makes a tar.gz and a .deb of ringzero's files; the same files give the same bytes.
#   make_packages.sh STAGE VERSION TAR DEB FILE...    STAGE is stage.sh
set -euo pipefail
stage=$1 version=$2 tar=$3 deb=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=1767225600 # of all files; Debian's archive takes none of before 1984
architecture=$(dpkg --print-architecture)
triplet=$(gcc -print-multiarch)
maintainer="The ringzero authors <ringzero@localhost>"

# binaries FOLDER: the programs and shared libraries in it, each followed by a zero.
binaries() { find "$1" -type f \( -perm -100 -o -name '*.so*' \) -print0; }

root=$work/ringzero-$version
"$stage" "$root" "$version" "$@"
binaries "$root" | xargs -0 strip --strip-unneeded --remove-section=.comment
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$work" \
  -czf "$tar" "ringzero-$version"

# What each package of Debian has beside the program's own documents.
debian_documents() {
  cat > "$1/copyright" <<COPYRIGHT
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ringzero

Files: *
Copyright: 2026 The ringzero authors
License: Apache-2.0
 The Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.
COPYRIGHT
  gzip -9n > "$1/changelog.gz" <<CHANGELOG
ringzero ($version) unstable; urgency=medium

  * /usr/share/doc/ringzero/CHANGELOG.md says what is new.

 -- $maintainer  $(date -uRd "@$SOURCE_DATE_EPOCH")
CHANGELOG
}

# The packages of the libraries that ringzero asks for, each from the version on that has what is used of it.
dependencies() {
  local found
  mkdir -p "$work/source/debian"
  printf 'Source: ringzero\n\nPackage: ringzero\nArchitecture: any\n' > "$work/source/debian/control"
  found=$(cd "$work/source" && binaries "$work/deb" | xargs -0 dpkg-shlibdeps --warnings=0 -O) || return 1
  echo "${found#shlibs:Depends=}"
}

mkdir -p "$work/deb/DEBIAN"
mv "$root" "$work/deb/usr"
depends=$(dependencies)
debian_documents "$work/deb/usr/share/doc/ringzero"
# Debian's linker finds libraries here without being told.
mv "$work/deb/usr/lib" "$work/lib"
mkdir -p "$work/deb/usr/lib/$triplet"
mv "$work/lib/systemd" "$work/deb/usr/lib/systemd"
mv "$work/lib"/* "$work/deb/usr/lib/$triplet/"
sed -i "s,/\.\./\.\.$,/../../..,; s,^libdir=.*,libdir=\${prefix}/lib/$triplet," \
  "$work/deb/usr/lib/$triplet/pkgconfig/ringzero.pc"
sed -i "s,/\.\./\.\./\.\.\" ABSOLUTE,/../../../..\" ABSOLUTE,; s,/lib/libringzero,/lib/$triplet/libringzero," \
  "$work/deb/usr/lib/$triplet/cmake/ringzero/ringzeroConfig.cmake"
cat > "$work/deb/DEBIAN/control" <<CONTROL
Package: ringzero
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Section: libs
Priority: optional
Depends: $depends
Description: collective communication and sharding
 Collectives over UCX, a gRPC rendezvous, and a ZeRO optimizer, for C and C++
 programs: library, header, and the rz_* programs.
CONTROL
# What packages of programs that link with the library depend on.
echo "libringzero ${version%.*} ringzero (>= $version)" > "$work/deb/DEBIAN/shlibs"
echo "activate-noawait ldconfig" > "$work/deb/DEBIAN/triggers"
(cd "$work/deb" && find usr -type f -print0 | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
find "$work/deb" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb -Zgzip --root-owner-group --build "$work/deb" "$deb" > /dev/null
