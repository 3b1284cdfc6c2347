# Writes, for each function that a header declares with RZ_API, its name on a line (-v what=names)
# or the C function that calls it in the core (-v what=functions). A declaration begins with RZ_API
# in the first column, ends with a semicolon, and its parameters have names.
#   awk -v what=functions -f forward.awk ringzero.h
/^RZ_API/ {
  declaration = $0
  while (declaration !~ /;/ && (getline line) > 0) declaration = declaration " " line
  sub(/^RZ_API +/, "", declaration)
  gsub(/ +/, " ", declaration)
  match(declaration, /rz_[a-z0-9_]+\(/)
  result = substr(declaration, 1, RSTART - 1)
  name = substr(declaration, RSTART, RLENGTH - 1)
  parameters = substr(declaration, RSTART + RLENGTH)
  sub(/\);.*$/, "", parameters)
  names[count++] = name
  results[name] = result
  all_parameters[name] = parameters
}

function arguments_of(parameters,    i, n, part, list) {
  if (parameters == "void") return ""
  n = split(parameters, part, ",")
  for (i = 1; i <= n; ++i) {
    match(part[i], /[a-z0-9_]+ *$/)
    list = list (i > 1 ? ", " : "") substr(part[i], RSTART, RLENGTH)
  }
  return list
}

function fallback_of(result) {
  if (result ~ /rz_result_t/) return "RZ_ERROR_LIBRARY"
  return result ~ /\*/ ? "core_error()" : "0"
}

END {
  if (what == "names") {
    for (i = 0; i < count; ++i) print names[i]
    exit
  }
  print "#include \"library/core.h\""
  print "#include \"ringzero.h\""
  print "\nconst char* const core_names[] = {"
  for (i = 0; i < count; ++i) printf "    \"%s\",\n", names[i]
  print "    0,\n};\n"
  printf "void* core_functions[%d];\n", count
  for (i = 0; i < count; ++i) {
    name = names[i]
    printf "\n%s%s(%s) {\n", results[name], name, all_parameters[name]
    printf "  if (!core_is_loaded()) return %s;\n", fallback_of(results[name])
    printf "  return ((%s(*)(%s))core_functions[%d])(%s);\n}\n", results[name],
           all_parameters[name], i, arguments_of(all_parameters[name])
  }
}
