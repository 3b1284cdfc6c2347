# Lists what Markdown files refer to and can be referred to by, one a line, fields between tabs:
#   heading  FILE  ANCHOR        as GitHub makes one of a heading: the n-th of the same text gets -n
#   link     FILE  LINE  TARGET  of [text](target), without those that have a scheme
#   path     FILE  LINE  PATH    `folder/file` of this source tree, where FOLDERS has the folder
#   name     FILE  LINE  NAME    of `rz_name` and `RZ_NAME`
# What stands in fenced blocks is neither.
#   awk -v FOLDERS='docs tools' -f links.awk FILE...
function anchor(text) {
  gsub(/\]\([^)]*\)/, "", text)
  text = tolower(text)
  gsub(/[^a-z0-9 _-]/, "", text)
  gsub(/ /, "-", text)
  return text
}

BEGIN {
  OFS = "\t"
  count = split(FOLDERS, folders, " ")
  for (i = 1; i <= count; ++i) known[folders[i]] = 1
}

FNR == 1 { fenced = 0 }

/^ *```/ { fenced = !fenced; next }
fenced { next }

/^#+ / {
  text = $0
  sub(/^#+ +/, "", text)
  name = anchor(text)
  times = seen[FILENAME, name]++
  print "heading", FILENAME, times ? name "-" times : name
}

{
  plain = ""
  pieces = split($0, piece, "`")
  for (i = 1; i <= pieces; ++i) {
    if (i % 2) {
      plain = plain piece[i]
    } else {
      plain = plain "code"
      if (piece[i] ~ /^[a-z_]+\/[A-Za-z0-9_.\/-]*$/) {
        folder = piece[i]
        sub(/\/.*/, "", folder)
        if (folder in known) print "path", FILENAME, FNR, piece[i]
      }
      code = piece[i]
      while (match(code, /(rz|RZ)_[A-Za-z0-9_]+/)) {
        print "name", FILENAME, FNR, substr(code, RSTART, RLENGTH)
        code = substr(code, RSTART + RLENGTH)
      }
    }
  }
  while (match(plain, /\]\([^)]+\)/)) {
    target = substr(plain, RSTART + 2, RLENGTH - 3)
    plain = substr(plain, RSTART + RLENGTH)
    if (target !~ /^[a-z]+:/) print "link", FILENAME, FNR, target
  }
}
