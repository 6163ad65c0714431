// Chooses the kernels for this machine once; tests may force another build.
#include <cstring>
#include <initializer_list>
#include <stdexcept>

#include "kernels.hpp"

#ifdef DALEMBERT_X86
#include <cpuid.h>
#endif

namespace dalembert {

namespace x86_64_v2 {
extern const KernelTable table;
}
namespace x86_64_v3 {
extern const KernelTable table;
}
namespace x86_64_v4 {
extern const KernelTable table;
}
namespace generic {
extern const KernelTable table;
}

#ifdef DALEMBERT_X86
// The level of x86-64 (psABI: 1 to 4) that processor and operating system support. Asked of the processor itself: the
// compilers' own __builtin_cpu_supports needs a run-time library that not every linker brings along.
static int x86_level() {
  unsigned a, b, c, d, features = 0, more = 0, extended = 0;
  if (__get_cpuid(1, &a, &b, &c, &d)) features = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) more = b;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d)) extended = c;
  auto all = [](unsigned word, std::initializer_list<int> bits) {
    for (int bit : bits)
      if (!(word >> bit & 1)) return false;
    return true;
  };
  // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF
  if (!all(features, {0, 9, 13, 19, 20, 23}) || !all(extended, {0})) return 1;
  // FMA, MOVBE, OSXSAVE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT
  if (!all(features, {12, 22, 27, 28, 29}) || !all(more, {3, 5, 8}) || !all(extended, {5})) return 2;
  unsigned low, high;  // registers that the operating system saves
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if (!all(low, {1, 2})) return 2;
  // AVX-512 F, DQ, CD, BW, VL, and its registers
  return all(more, {16, 17, 28, 30, 31}) && all(low, {5, 6, 7}) ? 4 : 3;
}
#endif

// kernels that were built and that this machine can run, best first
static int runnable(const KernelTable* (&list)[4]) {
  int n = 0;
#ifdef DALEMBERT_X86
  const int level = x86_level();
#ifdef DALEMBERT_HAS_v4
  if (level >= 4) list[n++] = &x86_64_v4::table;
#endif
#ifdef DALEMBERT_HAS_v3
  if (level >= 3) list[n++] = &x86_64_v3::table;
#endif
#ifdef DALEMBERT_HAS_v2
  if (level >= 2) list[n++] = &x86_64_v2::table;
#endif
#else
  list[n++] = &generic::table;
#endif
  return n;
}

static const KernelTable* chosen = nullptr;

const KernelTable& kernels() {
  if (!chosen && !set_kernels("auto"))
    throw std::runtime_error("dalembert was not built for a processor as old as this one");
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
