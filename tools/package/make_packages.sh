#!/usr/bin/env bash
# Makes a tar.gz and a .deb of ringzero's files; the same files give the same bytes.
#   make_packages.sh STAGE VERSION TAR DEB FILE...    STAGE is stage.sh
set -euo pipefail
stage=$1 version=$2 tar=$3 deb=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=0
architecture=$(dpkg --print-architecture)

"$stage" "$work/ringzero-$version" "$version" "$@"
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$work" \
  -czf "$tar" "ringzero-$version"

# The package of a shared library. Some are listed below /lib, where they were before it became a link.
package_of() {
  dpkg-query -S "$1" 2> /dev/null || dpkg-query -S "${1#/usr}" 2> /dev/null ||
    { echo "make_packages.sh: no package has $1, which ringzero needs" >&2; return 1; }
}

# The packages of the shared libraries that the programs ask for; the core asks for no others.
dependencies() {
  find "$1" -type f -perm -100 -exec ldd {} + | awk '$3 ~ /^\// {print $3}' | sort -u |
    xargs -r realpath | sort -u |
    while read -r library; do package_of "$library" || exit 1; done |
    cut -d: -f1 | sort -u | paste -sd, | sed 's/,/, /g'
}

mkdir -p "$work/deb/DEBIAN"
"$stage" "$work/deb/usr" "$version" "$@"
depends=$(dependencies "$work/deb/usr")
cat > "$work/deb/DEBIAN/control" <<CONTROL
Package: ringzero
Version: $version
Architecture: $architecture
Maintainer: The ringzero authors <ringzero@localhost>
Section: libs
Priority: optional
Depends: $depends
Description: collective communication and sharding
 Collectives over UCX, a gRPC rendezvous, and a ZeRO optimizer, for C and C++
 programs: library, header, and the rz_* programs.
CONTROL
echo "activate-noawait ldconfig" > "$work/deb/DEBIAN/triggers"
# Debian's linker finds libraries here without being told.
triplet=$(gcc -print-multiarch)
mv "$work/deb/usr/lib" "$work/lib"
mkdir -p "$work/deb/usr/lib/$triplet"
mv "$work/lib/systemd" "$work/deb/usr/lib/systemd"
mv "$work/lib"/* "$work/deb/usr/lib/$triplet/"
sed -i "s,/\.\./\.\.$,/../../..,; s,^libdir=.*,libdir=\${prefix}/lib/$triplet," \
  "$work/deb/usr/lib/$triplet/pkgconfig/ringzero.pc"
sed -i "s,/\.\./\.\./\.\.\" ABSOLUTE,/../../../..\" ABSOLUTE,; s,/lib/libringzero,/lib/$triplet/libringzero," \
  "$work/deb/usr/lib/$triplet/cmake/ringzero/ringzeroConfig.cmake"
find "$work/deb" -exec touch -h -d @0 {} +
dpkg-deb -Zgzip --root-owner-group --build "$work/deb" "$deb" > /dev/null
