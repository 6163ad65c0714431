#!/usr/bin/env bash
# Builds the core with AddressSanitizer and UBSan and runs the tests with it; the first finding ends the run.
#   tests/sanitize.sh [pytest arguments]          default: the tests that use the core
# PYTHON: interpreter with the test dependencies (default python3). SANITIZE_DIR: where to build (kept; default: a temporary folder).
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(command -v "${PYTHON:-python3}")
work=${SANITIZE_DIR:-$(mktemp -d)}

cmake -S . -B "$work/build" -DDALEMBERT_SANITIZE=ON -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$python"
cmake --build "$work/build" --target _core -j "${JOBS:-2}"

# a copy of the package with that core; an installed dalembert stays as it is
rm -rf "$work/package"
mkdir -p "$work/package"
cp -r src/dalembert "$work/package/"
rm -f "$work/package/dalembert/"_core*.so
cp "$work/build/"_core*.so "$work/package/dalembert/"

# the interpreter is not instrumented: the run-time libraries come first; libstdc++ so that exceptions are intercepted
preload=""
for lib in libasan.so libubsan.so libstdc++.so.6; do preload+="${preload:+:}$(gcc -print-file-name=$lib)"; done
export LD_PRELOAD=$preload PYTHONPATH=$work/package OPENBLAS_NUM_THREADS=1
# leaks are not checked: Python itself does not free everything at exit
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
"$python" -c "import dalembert, sys; assert dalembert.__file__.startswith(sys.argv[1]), dalembert.__file__" "$work/package"
if [ $# -eq 0 ]; then
  set -- tests/core tests/integrate tests/system tests/control tests/estimate tests/optimize
fi
exec "$python" -m pytest -q -p no:cacheprovider --capture=sys "$@"  # findings go to file descriptor 2
