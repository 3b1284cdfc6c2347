# Makes a manual page out of what a program of ringzero says with --help (FlagSet::Help).
#   PROGRAM --help | awk -v VERSION=0.1.0 -f man_page.awk
# The first line has name and summary, the usage line the synopsis; then come parts that begin with a word and a colon:
# flags and environment with a column of names (24 wide, or a line of its own) and one of text, examples as they are;
# units and exit codes as text.
function roff(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  return text ~ /^[.']/ ? "\\&" text : text
}

function section(title) { print ".SH " title }

{ line[++lines] = $0 }

END {
  name = line[1]
  sub(/:.*/, "", name)
  summary = substr(line[1], length(name) + 3)
  printf ".TH %s 1 \"\" \"ringzero %s\" \"ringzero\"\n", toupper(name), VERSION
  print ".ad l\n.nh"
  section("NAME")
  print name " \\- " roff(summary)
  for (i = 2; i <= lines; ++i) {
    text = line[i]
    if (text ~ /^usage: /) {
      section("SYNOPSIS")
      print ".B " name
      print roff(substr(text, length("usage: " name) + 2))
      part = "DESCRIPTION"
      if (line[i + 2] != "flags:") section(part)
    } else if (text ~ /^(flags|units|environment|examples):$/) {
      part = toupper(substr(text, 1, length(text) - 1))
      section(part == "FLAGS" ? "OPTIONS" : part)
    } else if (text ~ /^exit codes: /) {
      part = "EXIT STATUS"
      section(part)
      print roff(substr(text, length("exit codes: ") + 1))
    } else if (text == "") {
      continue
    } else if (part == "EXAMPLES") {
      print ".PP\n.nf\n.RS\n" roff(substr(text, 3)) "\n.RE\n.fi"
    } else if (part == "FLAGS" || part == "ENVIRONMENT") {
      alone = line[i + 1] ~ /^                          [^ ]/
      left = alone ? substr(text, 3) : substr(text, 3, 24)
      sub(/ +$/, "", left)
      print ".TP\n.B " roff(left)
      print roff(alone ? substr(line[++i], 27) : substr(text, 28))
    } else {
      if (part == "UNITS") print ".PP"
      sub(/^ +/, "", text)
      print roff(text)
    }
  }
}
