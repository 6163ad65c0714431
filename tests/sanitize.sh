#!/usr/bin/env bash
# Builds the core with AddressSanitizer and UBSan and runs the tests with it; the first finding ends the run.
#   tests/sanitize.sh [pytest arguments]          default: the whole suite
# PYTHON: interpreter with the test dependencies and nanobind (default python3). SANITIZE_DIR: where to build (kept; default: a temporary folder).
set -euo pipefail
cd "$(dirname "$0")/.."
python=$(command -v "${PYTHON:-python3}")
work=${SANITIZE_DIR:-$(mktemp -d)}
"$python" -c "import nanobind" || { echo "this needs nanobind: $python -m pip install nanobind" >&2; exit 1; }

cmake -S . -B "$work/build" -DDALEMBERT_SANITIZE=ON -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$python"
cmake --build "$work/build" --target _core -j "${JOBS:-2}"

# a copy of the package with that core; an installed dalembert stays as it is
rm -rf "$work/package"
mkdir -p "$work/package"
cp -r src/dalembert "$work/package/"
cp -r examples "$work/package/dalembert/"
rm -f "$work/package/dalembert/"_core*.so
cp "$work/build/"_core*.so "$work/package/dalembert/"

# CasADi loads its solvers with RTLD_DEEPBIND, which the sanitizer refuses: take the flag away on the way
cat > "$work/shallow.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
void *dlopen(const char *name, int flags) {
  void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
  return next(name, flags & ~RTLD_DEEPBIND);
}
END
gcc -shared -fPIC -o "$work/shallow.so" "$work/shallow.c"

# the interpreter is not instrumented: the run-time libraries come first; libstdc++ so that exceptions are intercepted
preload=$work/shallow.so
for lib in libasan.so libubsan.so libstdc++.so.6; do preload+="${preload:+:}$(gcc -print-file-name=$lib)"; done
export LD_PRELOAD=$preload PYTHONPATH=$work/package OPENBLAS_NUM_THREADS=1
# leaks are not checked: Python itself does not free everything at exit
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:verify_asan_link_order=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
"$python" -c "import dalembert, sys; assert dalembert.__file__.startswith(sys.argv[1]), dalembert.__file__" "$work/package"
exec "$python" -m pytest -q -p no:cacheprovider --capture=sys "$@"  # findings go to file descriptor 2
