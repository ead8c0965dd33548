/* SPDX-License-Identifier: BSD-3-Clause
 * A mock NVML for tests of `limber gpu`, with one device.  GPU_MOCK=nonvml: NVML reports that its
 * driver has another version. */
#include <stdlib.h>
#include <string.h>

enum { NOT_FOUND = 6, MISMATCH = 18, CLOCK_SM = 1 };

int nvmlInit_v2(void)
{
    const char *s = getenv("GPU_MOCK");

    return s && !strcmp(s, "nonvml") ? MISMATCH : 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    static int one;

    *device = &one;
    return strcmp(bus, "0000:01:00.0") ? NOT_FOUND : 0;
}

int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz)
{
    (void)device;
    *mhz = clock == CLOCK_SM ? 1234 : 2619;
    return 0;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    (void)device;
    *milliwatts = 512500;
    return 0;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    (void)device;
    (void)sensor;
    *celsius = 55;
    return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
    (void)device;
    *reasons = 4;
    return 0;
}
