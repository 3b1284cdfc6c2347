#!/usr/bin/env bash
# Installs into a folder of its own, compiles the C examples against that with pkg-config alone (and, where it is
# there, CMake), and runs them with three ranks of the installed launcher; then moves the folder and does so again.
#   install_test.sh INSTALL STAGE VERSION FILE...
set -euo pipefail
source tests/skip.sh
install=$1 stage=$2 version=$3
shift 3

# What is wrong is said, and nothing is built.
for wrong in "" --prefix --prefix= "--prefix --prefix" --folder; do
  status=0
  # shellcheck disable=SC2086  # arguments are words
  words=$("$install" $wrong 2>&1) || status=$?
  if [ "$status" != 2 ] || ! grep -q '^tools/install: .*--' <<< "$words"; then
    echo "tools/install $wrong: status $status, '$words'"
    exit 1
  fi
done

prefix=$TEST_TMPDIR/first
"$stage" "$prefix" "$version" "$@"
in_header=$(awk '/define RZ_VERSION_(MAJOR|MINOR|PATCH) / { v = v dot $3; dot = "." } END { print v }' \
  "$prefix/include/ringzero.h")
[ "$in_header" = "$version" ] ||
  { echo "ringzero.h is of version $in_header, and the package of $version"; exit 1; }
skip_with_sanitizer install "$prefix/lib/libringzero.so"

try() {
  local prefix=$1 example
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  [ "$(pkg-config --modversion ringzero)" = "$version" ]
  for example in all_reduce zero; do
    # shellcheck disable=SC2046  # flags are words
    gcc -std=c11 -Wall -Wextra -Werror -pedantic \
      "$prefix/share/doc/ringzero/examples/$example.c" -o "$TEST_TMPDIR/$example" \
      $(pkg-config --cflags --libs ringzero) -Wl,-rpath,"$prefix/lib"
    "$prefix/bin/rz_run" -n 3 -- "$TEST_TMPDIR/$example" | tee "$TEST_TMPDIR/out"
    [ "$(grep -c 'of 3' "$TEST_TMPDIR/out")" = 3 ]
  done
}

try "$prefix"
mv "$prefix" "$TEST_TMPDIR/second"
try "$TEST_TMPDIR/second"

if command -v cmake > /dev/null; then
  mkdir "$TEST_TMPDIR/project"
  cat > "$TEST_TMPDIR/project/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.13)
project(user C)
find_package(ringzero ${version%.*} REQUIRED)
if(NOT ringzero_VERSION VERSION_EQUAL $version)
  message(FATAL_ERROR "version '\${ringzero_VERSION}'")
endif()
foreach(other 99.0 ${version%.*}.99)
  find_package(ringzero \${other} QUIET)
  if(ringzero_FOUND)
    message(FATAL_ERROR "$version was taken for \${other}")
  endif()
endforeach()
add_executable(user $TEST_TMPDIR/second/share/doc/ringzero/examples/all_reduce.c)
target_link_libraries(user ringzero::ringzero)
CMAKE
  cmake -S "$TEST_TMPDIR/project" -B "$TEST_TMPDIR/built" -DCMAKE_PREFIX_PATH="$TEST_TMPDIR/second" \
    > /dev/null
  cmake --build "$TEST_TMPDIR/built" > /dev/null
  "$TEST_TMPDIR/second/bin/rz_run" -n 2 -- "$TEST_TMPDIR/built/user"
else
  echo "find_package(ringzero) is not tested: there is no cmake"
fi

# Without its other half the library says so, and says where it looked.
mv "$TEST_TMPDIR/second/lib/ringzero" "$TEST_TMPDIR/away"
if "$TEST_TMPDIR/all_reduce" 2> "$TEST_TMPDIR/err"; then exit 1; fi
grep -q "libringzero.so cannot load its other half.*second/lib/ringzero/libringzero_core.so" \
  "$TEST_TMPDIR/err"
