# Writes a C program that prints what programs are compiled with: every function, constant, struct
# and field of ringzero.h, with values, sizes and offsets.
#   awk -f abi_listing.awk ringzero.h
function print_text(text) {
  gsub(/"/, "\\\"", text)
  printf "  puts(\"%s\");\n", text
}

BEGIN {
  print "#include <stddef.h>\n#include <stdio.h>\n#include \"ringzero.h\"\nint main(void) {"
}

# The declaration that this line begins, on one line.
function whole_declaration(  declaration, line) {
  declaration = $0
  while (declaration !~ /;/ && (getline line) > 0) declaration = declaration " " line
  gsub(/ +/, " ", declaration)
  return declaration
}

/^RZ_API/ {
  declaration = whole_declaration()
  sub(/^RZ_API +/, "", declaration)
  match(declaration, /rz_[a-z0-9_]+\(/)
  print_text("function " substr(declaration, RSTART, RLENGTH - 1) " " declaration)
}

/^typedef struct [a-z_]+ \{/ {
  name = $3
  printf "  printf(\"struct %s size %%zu\\n\", sizeof(struct %s));\n", name, name
}
/^}/ { name = "" }
name != "" && /^  [a-z].*;/ {
  field = $0
  sub(/;.*/, "", field)
  match(field, /[a-z0-9_]+$/)
  field = substr(field, RSTART)
  printf "  printf(\"field %s.%s offset %%zu size %%zu\\n\", offsetof(struct %s, %s),\n", name, field,
         name, field
  printf "         sizeof(((struct %s*)0)->%s));\n", name, field
}

/^typedef [^s]/ { print_text(whole_declaration()) }

# Constants of enumerations, and those that are numbers.
/^(enum \{)?.*RZ_[A-Z0-9_]+ = -?[0-9]+/ {
  line = $0
  while (match(line, /RZ_[A-Z0-9_]+ = -?[0-9]+/)) {
    print_text("constant " substr(line, RSTART, RLENGTH))
    line = substr(line, RSTART + RLENGTH)
  }
}
/^#define RZ_[A-Z_]+ \(?-?[0-9]+\)?$/ { print_text("constant " $2 " = " $3) }

END { print "  return 0;\n}" }
