# shellcheck shell=bash
# What the tests of launchers have in common. Sourced with the programs' paths in the environment:
# ALL_REDUCE, TRAIN, LIBRARY, NUMPY_EXAMPLE.
shopt -s inherit_errexit

. tests/skip.sh

fail() { echo "FAILED: $*" >&2; exit 1; }

# Nothing of what this test runs under.
for name in $(compgen -e | grep -E '^(RZ_|OMPI_|PMIX?_|SLURM_|TORCHELASTIC_|MASTER_|RANK$|WORLD_SIZE$|LOCAL_)'); do
  unset "$name"
done
export RZ_LIBRARY=$PWD/$LIBRARY PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
sanitized=no
if readelf -d "$LIBRARY" | grep 'NEEDED.*lib[atu]b*san' >/dev/null; then sanitized=yes; fi
python=no
if [ "$sanitized" = no ] && /usr/bin/python3 -c 'import numpy' 2>/dev/null; then python=yes; fi

# output COMMAND...: what it writes, which is shown; a failure is the test's.
output() {
  local text
  text=$("$@") || fail "status $? of $*: $text"
  echo "$text" >&2
  echo "$text"
}

# all_ranks N COMMAND...: all_reduce.c or the NumPy example by N ranks, each once, with all's sum.
all_ranks() {
  local n=$1 rank text
  text=$(output "${@:2}")
  for ((rank = 0; rank < n; ++rank)); do
    [ "$(grep -c "rank $rank of $n: .*\b$((n * (n + 1) / 2))\b" <<<"$text")" = 1 ] ||
      fail "no result, or more than one, of rank $rank of $n"
  done
}

# trained COMMAND...: `rz_train --steps 4` by one job, whatever the number of its ranks.
trained() {
  local text
  text=$(output "$@")
  [ "$(grep -c '^step 4 ' <<<"$text")" = 1 ] || fail "not one step 4"
  [ "$(grep -c '^weights crc32c ' <<<"$text")" = 1 ] || fail "not one job's weights"
}
train_flags=(--dataset synthetic --model 20-24-5 --global-batch 24 --stage 1 --steps 4)

# three_programs LAUNCHER...: with as many ranks as the launcher, called as `LAUNCHER N PROGRAM...`,
# is told.
three_programs() {
  all_ranks 3 "$@" 3 "$ALL_REDUCE"
  trained "$@" 2 "$TRAIN" "${train_flags[@]}"
  if [ "$python" = yes ]; then all_ranks 2 "$@" 2 /usr/bin/python3 "$NUMPY_EXAMPLE"; fi
}
