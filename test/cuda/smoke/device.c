/* SPDX-License-Identifier: BSD-3-Clause */
#include "smoke.h"

#include "settings.h"

#include <string.h>

const struct cuda_driver *smoke_driver;
cu_stream smoke_stream;

/* Opens device 0 and makes a stream.  On failure returns false with a message in d. */
bool smoke_open(struct diag *d)
{
    struct device *v;

    settings_from_environment();
    v = limber_cuda_device(0, d);
    if (!v)
        return false;
    smoke_driver = v->driver;
    return limber_cuda_ok(v->driver, v->driver->cuCtxPushCurrent_v2(v->context),
                          "entering the device's context", d) &&
           limber_cuda_ok(v->driver, v->driver->cuStreamCreate(&smoke_stream, 1), "making a stream",
                          d);
}

static bool wait(struct diag *d)
{
    return limber_cuda_ok(smoke_driver, smoke_driver->cuStreamSynchronize(smoke_stream),
                          "running kernels", d);
}

bool smoke_upload(struct memory *m, const void *data, size_t bytes, struct diag *d)
{
    const struct cuda_driver *c = smoke_driver;

    *m = (struct memory){ 0, bytes };
    return limber_cuda_ok(c, c->cuMemAlloc_v2(&m->at, bytes ? bytes : 1), "taking memory", d) &&
           limber_cuda_ok(c,
                          data ? c->cuMemcpyHtoDAsync_v2(m->at, data, bytes, smoke_stream) :
                                 c->cuMemsetD8Async(m->at, 0xff, bytes, smoke_stream),
                          "filling memory", d) &&
           wait(d);
}

bool smoke_download(void *to, const struct memory *m, struct diag *d)
{
    return wait(d) &&
           limber_cuda_ok(smoke_driver,
                          smoke_driver->cuMemcpyDtoHAsync_v2(to, m->at, m->bytes, smoke_stream),
                          "copying from the device", d) &&
           wait(d);
}

void smoke_free(struct memory *m)
{
    if (m->at)
        smoke_driver->cuMemFree_v2(m->at);
    m->at = 0;
}
