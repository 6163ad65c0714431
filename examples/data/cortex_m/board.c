/* Start of a Cortex-M4F or M7 board: floating point on, memory set up, main; then the end by semihosting, or, with
 * FIRMWARE, a stop. */
#include <stdint.h>

extern uint32_t data_from, data_start, data_end, bss_start, bss_end, stack_top;
int main(void);
void reset(void);

#ifdef FIRMWARE
static void leave(int code) {
  (void)code;
  for (;;) continue;
}
#else
#include <stdlib.h>
extern void initialise_monitor_handles(void);
static void leave(int code) { exit(code); }
#endif

static void stop(void) { leave(99); }

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
    &stack_top, (void *)reset, (void *)stop, (void *)stop, (void *)stop, (void *)stop, (void *)stop};

void reset(void) {
  uint32_t *from = &data_from, *to;
  *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: full access to the floating-point unit */
  __asm volatile("dsb\n isb");
  for (to = &data_start; to < &data_end;) *to++ = *from++;
  for (to = &bss_start; to < &bss_end;) *to++ = 0;
#ifndef FIRMWARE
  initialise_monitor_handles();
#endif
  leave(main());
}

#ifndef FIRMWARE
/* instructions since the last call, in units of 40: QEMU's -icount shift=0 makes one of them last 1 ns, and the clock of
 * these boards ticks every 40 ns */
uint32_t ticks(void) {
  volatile uint32_t *const systick = (volatile uint32_t *)0xE000E010u;
  static uint32_t last;
  uint32_t now, passed;
  if (!(systick[0] & 1u)) {
    systick[1] = 0x00FFFFFFu;
    systick[2] = 0;
    systick[0] = 5u;
    last = 0x00FFFFFFu;
  }
  now = systick[2];
  passed = (last - now) & 0x00FFFFFFu;
  last = now;
  return passed;
}
#endif

/* the first serial line of the board (CMSDK UART): a character out, a character in */
#define UART ((volatile uint32_t *)0x40004000u) /* data, state, control, -, divider */

void serial_put(char c) {
  UART[4] = 16u;
  UART[2] = 3u;
  while (UART[1] & 1u) continue;
  UART[0] = (uint32_t)(unsigned char)c;
}

int serial_get(void) {
  UART[4] = 16u;
  UART[2] = 3u;
  while (!(UART[1] & 2u)) continue;
  return (int)(UART[0] & 0xFFu);
}
