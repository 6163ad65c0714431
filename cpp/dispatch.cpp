// Chooses the kernels for this machine once; tests may force another build.
#include <cstring>
#include "kernels.hpp"

namespace dalembert {

#define DAL_DECLARE(arch)         \
  namespace arch {                \
  extern const KernelTable table; \
  }
#ifdef DALEMBERT_HAS_v2
DAL_DECLARE(x86_64_v2)
#endif
#ifdef DALEMBERT_HAS_v3
DAL_DECLARE(x86_64_v3)
#endif
#ifdef DALEMBERT_HAS_v4
DAL_DECLARE(x86_64_v4)
#endif
#ifndef DALEMBERT_X86
DAL_DECLARE(generic)
#endif

// kernels that were built and that this machine can run, best first
static int runnable(const KernelTable* (&list)[4]) {
  int n = 0;
#ifdef DALEMBERT_X86
  __builtin_cpu_init();
#ifdef DALEMBERT_HAS_v4
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("fma"))
    list[n++] = &x86_64_v4::table;
#endif
#ifdef DALEMBERT_HAS_v3
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    list[n++] = &x86_64_v3::table;
#endif
#ifdef DALEMBERT_HAS_v2
  list[n++] = &x86_64_v2::table;
#endif
#else
  list[n++] = &generic::table;
#endif
  return n;
}

static const KernelTable* chosen = nullptr;

const KernelTable& kernels() {
  if (!chosen) set_kernels("auto");
  return *chosen;
}

bool set_kernels(const char* name) {
  const KernelTable* list[4];
  int n = runnable(list);
  for (int i = 0; i < n; ++i)
    if (!std::strcmp(name, "auto") || !std::strcmp(name, list[i]->name)) {
      chosen = list[i];
      return true;
    }
  return false;
}

}  // namespace dalembert
