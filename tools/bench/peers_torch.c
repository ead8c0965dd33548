/* SPDX-License-Identifier: BSD-3-Clause
 * PyTorch, if a Python has it: a child process that computes elementwise functions, reductions of
 * lines of 1024 elements, and convolutions on request, and replies with their times. */
#include "tools/bench/bench.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The child's program.  It reads a call per line from stdin and answers its seconds, or -1. */
static const char script[] =
    "import sys, time\n"
    "try:\n"
    "    import torch\n"
    "except Exception:\n"
    "    sys.exit(1)\n"
    "types = {'f16': torch.float16, 'bf16': torch.bfloat16, 'f32': torch.float32}\n"
    "functions = {'exp': torch.ops.aten.exp.out, 'tanh': torch.ops.aten.tanh.out,\n"
    "             'gelu': torch.ops.aten.gelu.out}\n"
    "def lines(x):\n"
    "    return x.view(-1, 1024)\n"
    "def softmax(x, out):\n"
    "    torch.ops.aten._softmax.out(lines(x), -1, False, out=lines(out))\n"
    "def layer_norm(x, out):\n"
    "    sums = [lines(out)[:, :1].contiguous() for _ in range(2)]\n"
    "    torch.ops.aten.native_layer_norm.out(lines(x), (1024,), None, None, 1e-5,\n"
    "                                         out0=lines(out), out1=sums[0], out2=sums[1])\n"
    "def variance(x, out):\n"
    "    torch.var(lines(x), 1, unbiased=False)\n"
    "functions.update(softmax=softmax, layer_norm=layer_norm, variance=variance,\n"
    "                 sum=lambda x, out: torch.sum(lines(x), 1))\n"
    "def tensors(layout, n, c, d, h, o, t, r, stride, groups):\n"
    "    deep = [d] if t else []\n"
    "    taps = [t] * bool(t) + [r, r]\n"
    "    x = torch.randn([n, c] + deep + [h, h])\n"
    "    f = torch.randn([o, c // groups] + taps)\n"
    "    if layout == 'nhwc':\n"
    "        last = torch.channels_last_3d if t else torch.channels_last\n"
    "        x, f = x.contiguous(memory_format=last), f.contiguous(memory_format=last)\n"
    "    dims = len(taps)\n"
    "    how = [stride] * dims, [r // 2] * dims, [1] * dims, False, [0] * dims, groups\n"
    "    return x, f, how, torch.convolution(x, f, None, *how)\n"
    "def convolve(way, x, f, how, y):\n"
    "    if way == 'forward':\n"
    "        torch.convolution(x, f, None, *how)\n"
    "    else:\n"
    "        torch.ops.aten.convolution_backward(y, x, f, None, *how,\n"
    "                                            [way == 'data', way == 'filter', False])\n"
    "kept, conv = {}, None\n"
    "print(torch.__version__, flush=True)\n"
    "for line in sys.stdin:\n"
    "    words = line.split()\n"
    "    seconds = -1\n"
    "    try:\n"
    "        torch.set_grad_enabled(False)\n"
    "        if words[0] == 'convolution':\n"
    "            torch.set_num_threads(int(words[1]))\n"
    "            clock = time.process_time if words[2] == '1' else time.perf_counter\n"
    "            key = words[4], *map(int, words[5:])\n"
    "            if not conv or conv[0] != key:\n"
    "                conv = key, tensors(*key)\n"
    "                convolve(words[3], *conv[1])\n"
    "            start = clock()\n"
    "            convolve(words[3], *conv[1])\n"
    "            print(clock() - start, flush=True)\n"
    "            continue\n"
    "        name, kind, count, threads = words\n"
    "        key = kind, int(count)\n"
    "        if key not in kept:\n"
    "            x = (2 * torch.randn(int(count))).to(types[kind])\n"
    "            kept = {key: (x, torch.zeros_like(x))}\n"
    "        x, y = kept[key]\n"
    "        torch.set_num_threads(int(threads))\n"
    "        start = time.perf_counter()\n"
    "        functions[name](x, out=y)\n"
    "        seconds = time.perf_counter() - start\n"
    "    except Exception:\n"
    "        pass\n"
    "    print(seconds, flush=True)\n";

/* The Python process that runs PyTorch, and the pipes to it. */
static struct {
    pid_t pid; /* the child process; 0 if it is not started yet, -1 if PyTorch is absent */
    FILE *to, *from;
    char version[32];
} torch;

/* Reads a line of the child's output; false at its end or if the line is empty. */
static bool read_reply(char *line, size_t size)
{
    return fgets(line, (int)size, torch.from) && line[0] && line[0] != '\n';
}

/* Starts Python with pipes to its stdin and stdout. */
static bool start_process(void)
{
    const char *python = python_for_examples();
    int in[2], out[2];

    if (pipe(in))
        return false;
    if (pipe(out)) {
        close(in[0]), close(in[1]);
        return false;
    }
    torch.pid = fork();
    if (torch.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        dup2(open("/dev/null", O_WRONLY), 2);
        execlp(python, python, "-c", script, (char *)NULL);
        _exit(1);
    }
    close(in[0]), close(out[1]);
    torch.to = fdopen(in[1], "w");
    torch.from = fdopen(out[0], "r");
    return torch.pid > 0 && torch.to && torch.from;
}

const char *torch_version(void)
{
    if (torch.pid == 0) {
        signal(SIGPIPE, SIG_IGN); /* writing to a child that has ended must not end this process */
        if (!start_process() || !read_reply(torch.version, sizeof torch.version))
            torch_close(), torch.pid = -1;
        else
            torch.version[strcspn(torch.version, "\n")] = '\0';
    }
    return torch.pid > 0 ? torch.version : NULL;
}

double torch_run(const char *function, const char *format, size_t count, int threads)
{
    char line[64];

    if (!torch_version())
        return -1;
    fprintf(torch.to, "%s %s %zu %d\n", function, format, count, threads);
    return fflush(torch.to) == 0 && read_reply(line, sizeof line) ? strtod(line, NULL) : -1;
}

/* Lets PyTorch, in a child process, time a convolution.  Returns its seconds, or -1 on failure. */
double torch_convolve(const struct work *w, int threads, bool cpu_time)
{
    static const char *const ways[] = { [LIMBER_OPERATION_CONV_FORWARD] = "forward",
                                        [LIMBER_OPERATION_CONV_BACKWARD_DATA] = "data",
                                        [LIMBER_OPERATION_CONV_BACKWARD_FILTER] = "filter" };
    const limber_conv *s = &w->conv;
    char line[64];

    if (!torch_version())
        return -1;
    fprintf(torch.to, "convolution %d %d %s %s %lld %lld %lld %lld %lld %lld %lld %lld %lld\n",
            threads, cpu_time, ways[w->operation],
            s->layout == LIMBER_LAYOUT_NHWC ? "nhwc" : "nchw", (long long)s->n, (long long)s->c,
            (long long)s->d, (long long)s->h, (long long)s->o, (long long)s->t, (long long)s->r,
            (long long)s->stride[0], (long long)s->groups);
    return fflush(torch.to) == 0 && read_reply(line, sizeof line) ? strtod(line, NULL) : -1;
}

void torch_close(void)
{
    if (torch.to)
        fclose(torch.to);
    if (torch.from)
        fclose(torch.from);
    if (torch.pid > 0)
        waitpid(torch.pid, NULL, 0);
    torch.pid = 0;
    torch.to = torch.from = NULL;
}
