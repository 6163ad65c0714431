#!/usr/bin/env bash
# Formats cpp/ by .clang-format (pip install clang-format). --check changes nothing and names the files that would change.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t files < <(find cpp \( -name '*.hpp' -o -name '*.cpp' \) | sort)
if [ "${1:-}" != --check ]; then
  clang-format -i "${files[@]}"
  exit
fi
bad=0
for file in "${files[@]}"; do
  clang-format "$file" | cmp -s - "$file" || { echo "$file is not formatted"; bad=$((bad + 1)); }
done
[ "$bad" = 0 ] || { echo "$bad of ${#files[@]} files: run tools/format_cpp.sh"; exit 1; }
