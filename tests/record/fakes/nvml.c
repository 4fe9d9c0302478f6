/* A library with NVML's names and types, and a GPU whose every number is known beforehand.
 *
 * FAKE_NVML_GPUS      GPUs, default 1
 * FAKE_NVML_UPDATE_US period of the power fields, default 20000
 * FAKE_NVML_WINDOW_US the power fields are means over this time before their update, default 0: the moment's power
 * FAKE_NVML_DELAY_US  time a power read takes, half of it before the value is taken, default 0
 * FAKE_NVML_LOAD      file of the times the GPU works, see load.h
 * FAKE_NVML_LOST      while this file exists the GPU is lost, and then until a fresh nvmlInit
 * FAKE_NVML_COUNT     file of 8 bytes: power reads answered
 * FAKE_NVML_ERROR     nvmlInit answers this code
 * FAKE_NVML_OLD       set: no field values, as old drivers
 *
 * The energy counter is the boot clock in microseconds as millijoules: a kilowatt, and a clock to check stamps by.
 * Power is 100 W idle and 400 W busy, plus a thousandth of a watt per update so that every update shows.
 */
#include <stdio.h>
#include <sys/mman.h>

#include "load.h"

typedef struct { unsigned id, scope; long long timestamp, latency; unsigned type, ret;
                 union { double d; unsigned u; unsigned long ul; unsigned long long ull; long long sll; int si; } value; } field_t;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; } pci_t;

static int lost_since_open;

static void rest(long us) { struct timespec t = {us / 1000000, (us % 1000000) * 1000}; if (us > 0) nanosleep(&t, 0); }

static void count(void) {
    static uint64_t *counter;
    const char *path = getenv("FAKE_NVML_COUNT");
    if (!path) return;
    if (!counter) {
        int f = open(path, O_RDWR | O_CREAT, 0644);
        if (f < 0 || ftruncate(f, 8)) return;
        counter = mmap(0, 8, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
        close(f);
        if (counter == MAP_FAILED) { counter = 0; return; }
    }
    __sync_fetch_and_add(counter, 1);
}

static int lost(void) { return lost_since_open |= exists("FAKE_NVML_LOST"); }

/* The sensor updates whether or not anyone looks: what is shown is worked out for the moment of the update. */
static unsigned power_mw(void) {
    static int64_t held = -1;
    static unsigned shown;
    int64_t update = 1000 * number("FAKE_NVML_UPDATE_US", 20000), window = 1000 * number("FAKE_NVML_WINDOW_US", 0);
    int64_t tick = now_ns() / update;
    if (tick == held) return shown;
    held = tick;
    shown = 100000 + tick % 1000;
    if (window) shown += 300000 * worked_ns(tick * update - window, tick * update) / window;
    else if (busy()) shown += 300000;
    return shown;
}

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int code = (int)number("FAKE_NVML_ERROR", 0);
    if (code) return code;
    lost_since_open = 0;
    return 0;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : code == 9 ? "Driver Not Loaded" : code == 3 ? "Not Supported" : "Unknown Error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned n) { snprintf(text, n, "570.1.fake"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = (unsigned)number("FAKE_NVML_GPUS", 1); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) { *h = (void *)(uintptr_t)(i + 1); return lost() ? 15 : 0; }
int nvmlDeviceGetName(void *h, char *text, unsigned n) { (void)h; snprintf(text, n, "NVIDIA H100 80GB HBM3"); return 0; }
int nvmlDeviceGetUUID(void *h, char *text, unsigned n) { snprintf(text, n, "GPU-00000000-0000-0000-0000-%012lu", (unsigned long)(uintptr_t)h); return 0; }
int nvmlDeviceGetPciInfo_v3(void *h, pci_t *p) { memset(p, 0, sizeof *p); snprintf(p->bus_id, 32, "00000000:%02lX:00.0", (unsigned long)(uintptr_t)h); return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *v) { (void)h; *v = 700000; return 0; }
int nvmlDeviceGetPowerManagementLimitConstraints(void *h, unsigned *a, unsigned *b) { (void)h; *a = 200000; *b = 700000; return 0; }
int nvmlDeviceGetPowerManagementDefaultLimit(void *h, unsigned *v) { (void)h; *v = 700000; return 0; }
int nvmlDeviceGetMaxClockInfo(void *h, int k, unsigned *v) { (void)h; *v = k == 2 ? 2619 : 1980; return 0; }
int nvmlDeviceGetClockInfo(void *h, int k, unsigned *v) { (void)h; *v = k == 2 ? 2619 : busy() ? 1755 : 345; return 0; }
int nvmlDeviceGetPersistenceMode(void *h, int *v) { (void)h; *v = 1; return 0; }
int nvmlDeviceGetTemperature(void *h, int k, unsigned *v) { (void)h; (void)k; *v = 41; return 0; }
int nvmlDeviceGetUtilizationRates(void *h, unsigned *v) { (void)h; v[0] = busy() ? 100 : 0; v[1] = 0; return 0; }
int nvmlDeviceGetCurrentClocksEventReasons(void *h, unsigned long long *v) { (void)h; *v = 1; return 0; }

int nvmlDeviceGetFieldValues(void *h, int n, field_t *f) {
    (void)h;
    if (number("FAKE_NVML_OLD", 0)) return 3;
    long delay = number("FAKE_NVML_DELAY_US", 0);
    rest(delay / 2);
    int gone = lost();
    unsigned mw = power_mw();
    rest(delay - delay / 2);
    for (int i = 0; i < n; i++) { f[i].type = 1; f[i].ret = gone ? 15 : (f[i].id == 185 || f[i].id == 186) ? 0 : 3; f[i].value.ull = 0; f[i].value.u = mw; }
    return 0;
}
int nvmlDeviceGetPowerUsage(void *h, unsigned *v) { (void)h; if (lost()) return 15; *v = power_mw(); return 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *h, unsigned long long *v) {
    (void)h;
    if (lost()) return 15;
    *v = (unsigned long long)(now_ns() / 1000);
    count();
    return 0;
}
