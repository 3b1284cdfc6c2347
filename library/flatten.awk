# Prints a header with those of this tree that it includes put in their place, each once.
#   awk -f flatten.awk ringzero.h
function flatten(file,    line, part) {
  if (seen[file]++) return
  while ((getline line < file) > 0) {
    if (line ~ /^#include "/) {
      split(line, part, "\"")
      flatten(part[2])
    } else {
      print line
    }
  }
}
BEGIN { flatten(ARGV[1]) }
