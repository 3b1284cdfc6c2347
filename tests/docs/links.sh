#!/usr/bin/env bash
# Says what Markdown pages have that is not there, a line each, and then fails: files and headings of links, files in
# code (of a binary its .cc is enough), names rz_... and RZ_... in code that no source has; and pages of docs/ that
# docs/README.md does not list.
#   links.sh LINKS_AWK TREE PAGE...    pages are relative to TREE
set -euo pipefail
links_awk=$(realpath "$1")
cd "$2"
shift 2

folders=$(find . -mindepth 1 -maxdepth 1 -type d -printf '%P ')
listed=$(awk -v FOLDERS="$folders" -f "$links_awk" "$@")
headings=$(grep '^heading' <<<"$listed" | cut -f 2-)
names=$(find . -mindepth 2 -type f \( -name '*.h' -o -name '*.cc' -o -name '*.py' -o -name BUILD \) \
  -exec grep -hoE '\b(rz|RZ)_[A-Za-z0-9_]+' {} + | sort -u)
wrong=0
say() { echo "$*"; wrong=1; }

while IFS=$'\t' read -r kind page line target; do
  case "$kind" in
    path) [ -e "$target" ] || [ -e "$target.cc" ] || say "$page:$line: there is no $target" ;;
    name) grep -qxF "$target" <<<"$names" || say "$page:$line: no source has $target" ;;
    link)
      file=${target%%#*}
      if [ -n "$file" ]; then file=$(realpath -m --relative-to=. "$(dirname "$page")/$file"); else file=$page; fi
      [ -e "$file" ] || say "$page:$line: there is no $file"
      case "$target" in *.md\#* | \#*)
        grep -qxF "$file"$'\t'"${target#*#}" <<<"$headings" || say "$page:$line: $file has no heading #${target#*#}" ;;
      esac ;;
  esac
done < <(grep -v '^heading' <<<"$listed")

for page in docs/*.md; do
  [ "$page" = docs/README.md ] || grep -qsF "(${page#docs/})" docs/README.md || say "docs/README.md does not list $page"
done
exit "$wrong"
