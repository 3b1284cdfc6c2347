#!/usr/bin/env bash
# What a page shows does what the page says. Its fenced blocks, in order:
#   - a program (c, python) whose first line says `rz_run -n N FLAGS -- ...` is run so, and prints the text block behind it,
#     in any order of the ranks;
#   - a json block is read by rz_train --config of two ranks, and the lines of a text block behind it are printed by
#     --print-config, or are the error where they begin with "rz_train: ".
#   programs_test.sh PAGE RZ_RUN RZ_TRAIN LIBRARY HEADER [MODULE...]
# Skipped, and counted so, where /usr/bin/python3 lacks a module, and with a sanitizer.
set -euo pipefail
page=$1 rz_run=$PWD/$2 rz_train=$PWD/$3 library=$PWD/$4 header=$PWD/$5 blocks_awk=$PWD/tests/docs/blocks.awk
shift 5
export RZ_LIBRARY=$library PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1

source tests/skip.sh
skip_without_modules "$page" "$@"
skip_with_sanitizer "$page" "$library"

folder=$TEST_TMPDIR/blocks
mkdir "$folder"
awk -v FOLDER="$folder" -f "$blocks_awk" "$page"
cd "$folder"
blocks=(*)
checked=0
same() { diff <(sort "$1") <(sort) || { echo "$page: $2 does not do what $1 says"; exit 1; }; }

for ((i = 0; i < ${#blocks[@]}; ++i)); do
  block=${blocks[i]} next=${blocks[i + 1]:-}
  read -ra ranks < <(sed -n '1s/.*rz_run -n \([0-9].*\) -- .*/\1/p' "$block") || true
  case "$block" in
    *.c)
      [ "${#ranks[@]}" -gt 0 ] || continue
      gcc -std=c11 -Wall -Wextra -Werror -pedantic "$block" -o program -I "$(dirname "$header")" "$library" \
        -Wl,-rpath,"$(dirname "$(realpath "$library")")"
      "$rz_run" -n "${ranks[@]}" -- ./program | same "$next" "$block" ;;
    *.python)
      [ "${#ranks[@]}" -gt 0 ] || continue
      "$rz_run" -n "${ranks[@]}" -- /usr/bin/python3 "$block" | same "$next" "$block" ;;
    *.json)
      cp "$block" config.json
      status=0
      RZ_RENDEZVOUS=127.0.0.1:1 RZ_WORLD_SIZE=2 "$rz_train" --config config.json --print-config \
        >printed 2>error || status=$?
      if grep -qs '^rz_train: ' "$next"; then
        [ "$status" = 2 ] || { echo "$page: $block is not refused: $status"; exit 1; }
        same "$next" "$block" <error
      else
        [ "$status" = 0 ] || { cat error; exit 1; }
        while read -r line; do
          grep -qxF "$line" printed || { echo "$page: $block: not printed: $line"; cat printed; exit 1; }
        done <"$([[ $next == *.text ]] && echo "$next" || echo /dev/null)"
      fi ;;
    *) continue ;;
  esac
  checked=$((checked + 1))
done
[ "$checked" -gt 0 ] || { echo "$page: nothing to check"; exit 1; }
echo "$page: $checked blocks do what it says"
