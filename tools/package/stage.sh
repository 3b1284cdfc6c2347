#!/usr/bin/env bash
# Lays ringzero's files out below a folder as they are installed.
#   stage.sh FOLDER VERSION FILE...    FOLDER is the prefix, e.g. /usr/local; each FILE goes where its
#                                      name says: libraries, the header, templates, documents, programs
# The result may be moved: nothing in it has FOLDER's name but the service, which has /usr/bin's.
set -euo pipefail
folder=$1 version=$2
shift 2

put() { install -D -m "$1" "$2" "$folder/$3"; }
fill() {
  mkdir -p "$(dirname "$folder/$2")"
  sed "s/@VERSION@/$version/g" "$1" > "$folder/$2"
  chmod 644 "$folder/$2"
}

for file in "$@"; do
  name=${file##*/}
  case "$file" in
    docs/* | examples/*) put 644 "$file" "share/doc/ringzero/$file"; continue ;;
  esac
  case "$name" in
    libringzero.so.*)
      put 644 "$file" "lib/$name"
      ln -sf "$name" "$folder/lib/libringzero.so" ;;
    libringzero.so) ;; # a link, made above
    libringzero_core.so) put 644 "$file" "lib/ringzero/$name" ;;
    ringzero.h) put 644 "$file" "include/$name" ;;
    ringzero.pc.in) fill "$file" lib/pkgconfig/ringzero.pc ;;
    ringzeroConfig*.cmake.in) fill "$file" "lib/cmake/ringzero/${name%.in}" ;;
    rz_rendezvous.service) put 644 "$file" "lib/systemd/system/$name" ;;
    *.md | LICENSE | THIRD_PARTY_NOTICES) put 644 "$file" "share/doc/ringzero/$name" ;;
    *.1.gz) put 644 "$file" "share/man/man1/$name" ;;
    rz_*) put 755 "$file" "bin/$name" ;;
    *) echo "stage.sh: no place for $file" >&2; exit 1 ;;
  esac
done
