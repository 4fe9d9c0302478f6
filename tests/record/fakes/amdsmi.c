/* A library with amdsmi's names and types (those the recorder asks for; the rest answer "not supported").
 *
 * FAKE_NVML_LOAD    file of the times the GPU works, see load.h
 * FAKE_AMD_GPUS     GPUs, default 1
 * FAKE_AMD_LOST     while this file exists the GPU does not answer
 *
 * The accumulator counts 15.259 uJ steps of the boot clock in microseconds as microjoules.
 */
#include <stdio.h>

#include "load.h"

#define STEP 15.259f
typedef struct { uint64_t socket; uint32_t current, average; uint64_t gfx, soc, mem; uint32_t limit; unsigned char pad[4]; uint64_t more[18]; } power_t;
typedef struct { uint32_t clk, min, max; unsigned char locked, sleep, pad[2]; uint32_t more[4]; } clock_t_;
typedef struct { uint64_t cap, usual, dpm, min, max, more[3]; } cap_t;
typedef struct { uint32_t gfx, umc, mm, more[13]; } usage_t;

static int lost(void) { return exists("FAKE_AMD_LOST"); }

int amdsmi_init(uint64_t flags) { (void)flags; return 0; }
int amdsmi_shut_down(void) { return 0; }
int amdsmi_status_code_to_string(int code, const char **text) { (void)code; *text = "device does not answer"; return 0; }
int amdsmi_get_socket_handles(uint32_t *n, void **h) { if (h) for (uint32_t i = 0; i < *n; i++) h[i] = (void *)(uintptr_t)(i + 1); else *n = (uint32_t)number("FAKE_AMD_GPUS", 1); return 0; }
int amdsmi_get_processor_handles(void *socket, uint32_t *n, void **h) { if (h) h[0] = socket; else *n = 1; return 0; }
int amdsmi_get_gpu_device_uuid(void *h, uint32_t *n, char *text) { snprintf(text, *n, "00000000-0000-1000-8000-%012lx", (unsigned long)(uintptr_t)h); return 0; }
int amdsmi_get_gpu_asic_info(void *h, char *info) { (void)h; strcpy(info, "AMD Instinct MI300X"); return 0; }
int amdsmi_get_gpu_driver_info(void *h, char *info) { (void)h; strcpy(info, "6.12.fake"); return 0; }
int amdsmi_get_power_cap_info(void *h, uint32_t i, cap_t *c) { (void)h; (void)i; memset(c, 0, sizeof *c); c->cap = c->usual = c->max = 750000000; return 0; }
int amdsmi_get_power_info(void *h, power_t *p) {
    (void)h;
    if (lost()) return 29;
    memset(p, 0, sizeof *p);
    p->current = (busy() ? 700 : 140) + now_ns() / 20000000 % 3;
    p->average = 0xFFFF;
    return 0;
}
int amdsmi_get_energy_count(void *h, uint64_t *count, float *step, uint64_t *stamp) {
    (void)h;
    if (lost()) return 29;
    *stamp = now_ns();
    *step = STEP;
    *count = (uint64_t)(*stamp / 1000 / (double)STEP);
    return 0;
}
int amdsmi_get_clock_info(void *h, int kind, clock_t_ *c) { (void)h; memset(c, 0, sizeof *c); c->clk = kind == 4 ? 1300 : busy() ? 2100 : 132; return 0; }
int amdsmi_get_gpu_activity(void *h, usage_t *u) { (void)h; memset(u, 0, sizeof *u); u->gfx = busy() ? 100 : 0; return 0; }
int amdsmi_get_temp_metric(void *h, int kind, int metric, int64_t *v) { (void)h; (void)kind; (void)metric; *v = 44; return 0; }
