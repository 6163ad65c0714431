// Chooses the kernels for this machine once; tests may force another build.
#include <cstring>
#include "kernels.hpp"

namespace dalembert {

#define DAL_DECLARE(arch) namespace arch { extern const KernelTable table; }
#ifdef DALEMBERT_X86
DAL_DECLARE(x86_64_v2)
#ifndef DALEMBERT_V2_ONLY
DAL_DECLARE(x86_64_v3)
DAL_DECLARE(x86_64_v4)
#endif
#else
DAL_DECLARE(generic)
#endif

static const KernelTable* best() {
#ifdef DALEMBERT_X86
#ifndef DALEMBERT_V2_ONLY
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("fma"))
    return &x86_64_v4::table;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return &x86_64_v3::table;
#endif
  return &x86_64_v2::table;
#else
  return &generic::table;
#endif
}

static const KernelTable* chosen = nullptr;

const KernelTable& kernels() {
  if (!chosen) chosen = best();
  return *chosen;
}

bool set_kernels(const char* name) {
  if (!std::strcmp(name, "auto")) { chosen = best(); return true; }
#ifdef DALEMBERT_X86
  if (!std::strcmp(name, "x86_64_v2")) { chosen = &x86_64_v2::table; return true; }
#ifndef DALEMBERT_V2_ONLY
  // never hand out code that this machine cannot run
  if (!std::strcmp(name, "x86_64_v3") && best() != &x86_64_v2::table) { chosen = &x86_64_v3::table; return true; }
  if (!std::strcmp(name, "x86_64_v4") && best() == &x86_64_v4::table) { chosen = &x86_64_v4::table; return true; }
#endif
  return false;
#else
  return !std::strcmp(name, "generic");
#endif
}

}  // namespace dalembert
