# Writes each fenced block of a Markdown page to a file of its own: FOLDER/01.c, FOLDER/02.text, ... in order.
#   awk -v FOLDER=out -f blocks.awk PAGE
/^```/ {
  if (file != "") {
    close(file)
    file = ""
  } else {
    file = sprintf("%s/%02d.%s", FOLDER, ++count, substr($0, 4))
    printf "" > file
  }
  next
}
file != "" { print > file }
