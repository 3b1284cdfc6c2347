#!/usr/bin/env bash
# What the documents refer to is there; and what is not, would be noticed.
#   links_test.sh LINKS_SH LINKS_AWK WORKSPACE    WORKSPACE is a runfile that links to the source tree
set -euo pipefail
links_sh=$PWD/$1 links_awk=$PWD/$2
tree=$(dirname "$(realpath "$3")")

(cd "$tree" && ls README.md CONTRIBUTING.md CHANGELOG.md docs/*.md docs/decisions/*.md) >"$TEST_TMPDIR/pages"
[ "$(wc -l <"$TEST_TMPDIR/pages")" -gt 30 ] || { echo "too few pages found under $tree"; exit 1; }
mapfile -t pages <"$TEST_TMPDIR/pages"
bash "$links_sh" "$links_awk" "$tree" "${pages[@]}"

mkdir -p "$TEST_TMPDIR/bad/docs" "$TEST_TMPDIR/bad/tools"
cd "$TEST_TMPDIR/bad"
touch tools/there
echo "void rz_there();" >tools/benchmark.cc
cat >README.md <<'PAGE'
# A `page` of 2 links
## Twice
[good](docs/listed.md), [good](docs/listed.md#a-heading-with-code), [good](#a-page-of-2-links), [good](#twice-1),
[good](https://example.com/none), `tools/there`, `tools/benchmark`, `elsewhere/none`, `[no link](none)`,
`rz_there(RZ)`, rz_no_code
## Twice
```sh
[no link](none)
# no heading
```
[bad](docs/none.md) `tools/none` [bad](#no-heading)
[bad](docs/listed.md#none) `f(RZ_NONE)`
PAGE
echo "# A heading, with \`code\`" >docs/listed.md
echo "[up](../README.md#twice) [bad](listed.md#twice)" >docs/unlisted.md
echo "[listed](listed.md)" >docs/README.md
if found=$(bash "$links_sh" "$links_awk" . README.md docs/listed.md docs/unlisted.md); then
  echo "bad links were taken"; exit 1
fi
diff - <(sort <<<"$found") <<'FOUND'
README.md:11: README.md has no heading #no-heading
README.md:11: there is no docs/none.md
README.md:11: there is no tools/none
README.md:12: docs/listed.md has no heading #none
README.md:12: no source has RZ_NONE
docs/README.md does not list docs/unlisted.md
docs/unlisted.md:1: docs/listed.md has no heading #twice
FOUND
