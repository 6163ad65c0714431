#!/usr/bin/env bash
# Do the oldest compilers that docs/install.md names take the core? Reads every source as they do, without making code
# (-fsyntax-only, all templates instantiated), for the instruction sets v2 and v4; warnings are errors. A compiler that is not installed is
# skipped with a message. Masks are bools or vectors, so `&` between them is meant (Clang doubts it). Run it in the environment that has nanobind.
set -euo pipefail
cd "$(dirname "$0")/.."
includes=(-isystem "$(python -m nanobind --include_dir)" -isystem "$(python -c 'import sysconfig; print(sysconfig.get_path("include"))')")
for compiler in ${COMPILERS:-g++-11 clang++-14}; do
  if ! command -v "$compiler" >/dev/null; then echo "$compiler is not installed: skipped"; continue; fi
  for source in cpp/*.cpp; do
    for level in v2 v4; do
      "$compiler" -std=c++20 -O1 -fsyntax-only -fvisibility=hidden -Wall -Wextra -Wno-bitwise-instead-of-logical -Werror "-march=x86-64-$level" -DDALEMBERT_X86 -DDALEMBERT_HAS_v2 \
        "-DDALEMBERT_ARCH=x86_64_$level" "${includes[@]}" "$source"
    done
  done
  echo "$compiler takes the core"
done
