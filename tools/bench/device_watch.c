/* SPDX-License-Identifier: BSD-3-Clause
 * Reads clocks and power by NVML, and kernel times if LIMBER_CUDA names timed_cuda.c. */
#include "tools/bench/bench.h"

#include "tools/bench/timed_cuda.h"

#include <string.h>

/* ---- clocks and power ------------------------------------------------------------------------ */

/* Constants of nvml.h. */
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, SENSOR_GPU = 0 };

/* The functions of NVML. */
static struct {
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_bus)(const char *, void **);
    int (*clock)(void *, int, unsigned *);
    int (*power)(void *, unsigned *); /* stores milliwatts */
    int (*temperature)(void *, int, unsigned *);
    int (*reasons)(void *, unsigned long long *);
} nvml;
static const struct symbol needed[] = {
    { "nvmlInit_v2", &nvml.init },
    { "nvmlShutdown", &nvml.shutdown },
    { "nvmlDeviceGetHandleByPciBusId_v2", &nvml.by_bus },
    { "nvmlDeviceGetClockInfo", &nvml.clock },
    { "nvmlDeviceGetPowerUsage", &nvml.power },
    { "nvmlDeviceGetTemperature", &nvml.temperature },
    { "nvmlDeviceGetCurrentClocksThrottleReasons", &nvml.reasons },
};

static struct library monitor;
/* NVML's handle of the device; NULL if it cannot be watched. */
static void *watched;
static struct device_now last;

/* Finds NVML's handle of a CUDA device by its PCI bus address.  On failure sets why_not and returns
 * false. */
static bool find_device(int device)
{
    int (*bus_id)(char *, int, int);
    char bus[32];
    int code;

    *(void **)&bus_id = device_symbol("cuDeviceGetPCIBusId");
    if (!bus_id || bus_id(bus, sizeof bus, device))
        return library_refuse(&monitor, "the driver does not say which device it is");
    code = nvml.init();
    if (code == 0)
        code = nvml.by_bus(bus, &watched);
    if (code == 0)
        return true;
    snprintf(monitor.why_not, sizeof monitor.why_not, "NVML answers %d", code);
    return false;
}

const char *watch_open(int device)
{
    monitor = (struct library){ .name = "NVML", .files = "libnvidia-ml.so.1" };
    if (library_load(&monitor) && LIBRARY_FIND(&monitor, needed) && find_device(device))
        return NULL;
    watched = NULL;
    return monitor.why_not;
}

void watch_close(void)
{
    if (watched)
        nvml.shutdown();
    watched = NULL;
}

/* Samples clocks, power, temperature and reasons for throttling into `last`. */
void watch_sample(void)
{
    unsigned sm = 0, memory = 0, milliwatts = 0, celsius = 0;

    if (!watched)
        return;
    last = (struct device_now){ 0 };
    nvml.clock(watched, CLOCK_SM, &sm);
    nvml.clock(watched, CLOCK_MEMORY, &memory);
    nvml.power(watched, &milliwatts);
    nvml.temperature(watched, SENSOR_GPU, &celsius);
    nvml.reasons(watched, &last.reasons);
    last.sm_mhz = (int)sm;
    last.memory_mhz = (int)memory;
    last.celsius = (int)celsius;
    last.watts = 1e-3 * milliwatts;
}

struct device_now watch_last(void)
{
    return last;
}

/* ---- names and times of kernels -------------------------------------------------------------- */

static timed_begin_fn *begin;
static timed_end_fn *end;

bool kernels_begin(void)
{
    *(void **)&begin = device_symbol("timed_cuda_begin");
    *(void **)&end = device_symbol("timed_cuda_end");
    if (!begin || !end)
        return false;
    begin();
    return true;
}

int kernels_end(struct timed_kernel *list, int room)
{
    return end(list, room);
}
