/* SPDX-License-Identifier: BSD-3-Clause
 * Tests that contracts hold for products of real matrices, which LIMBER_DATA contains: a basis of a
 * linear programme, images, and unitaries of quantum circuits.  Samples are compared with MPFR. */
#define _GNU_SOURCE
#include "contexts.h"
#include "convs.h"
#include "support.h"

#include <complex.h>
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static limber_context *ctx;

static int make_context(void **state)
{
    (void)state;
    ctx = group_context(.threads = 2);
    return ctx ? 0 : -1;
}

/* Opens a file of the folder LIMBER_DATA.  Prints a message and returns NULL if it is absent.
 * packed: unpacks it with gzip. */
static FILE *open_data_file(const char *name, bool packed)
{
    const char *root = getenv("LIMBER_DATA");
    char path[4000], command[4100];
    FILE *f;

    if (!root) {
        print_message("LIMBER_DATA is not set: nothing to multiply\n");
        return NULL;
    }
    snprintf(path, sizeof path, "%s/%s", root, name);
    f = fopen(path, "r");
    if (!f)
        print_message("%s: not in LIMBER_DATA\n", name);
    if (!f || !packed)
        return f;
    fclose(f);
    snprintf(command, sizeof command, "gzip -dc '%s'", path);
    return popen(command, "r");
}

/* ---- real matrices under each contract ------------------------------------------------------- */

/* The contracts under which the products are computed. */
static const struct {
    limber_promise promise;
    int bits;
    const char *scheme;
} contracts[] = {
    { LIMBER_CONTRACT_NATIVE, 0, NULL },
    { LIMBER_CONTRACT_CORRECT, 0, NULL },
    { LIMBER_CONTRACT_BITS, 40, NULL },
    { LIMBER_CONTRACT_NATIVE, 0, "ozaki2" },
    { LIMBER_CONTRACT_BITS, 20, "ozaki1-i8" },
    { LIMBER_CONTRACT_NATIVE, 0, "fp32-f" },
    { LIMBER_CONTRACT_NATIVE, 0, "fp32-f+fp32-b" },
    { LIMBER_CONTRACT_NATIVE, 0, "fp32-b" },
};

/* Computes C = A B^T under every contract, and checks samples. */
static void check_contracts(const double *a, int64_t m, const double *b, int64_t n, int64_t k,
                            const char *format, int samples)
{
    limber_format f = named(format), f64 = named("f64");
    char *x = malloc((size_t)(m * k) * f.size), *y = malloc((size_t)(n * k) * f.size);
    char *c = malloc((size_t)(m * n) * f.size);
    double u = ldexp(1, strcmp(format, "f64") ? -24 : -53);
    struct rng r = { 7 };
    mpfr_t s, scale;

    assert_int_equal(limber_convert(x, f, a, f64, (size_t)(m * k), LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    assert_int_equal(limber_convert(y, f, b, f64, (size_t)(n * k), LIMBER_ROUND_NEAREST),
                     LIMBER_STATUS_OK);
    mpfr_inits2(REF_BITS, s, scale, (mpfr_ptr)NULL);
    for (size_t q = 0; q < sizeof contracts / sizeof *contracts; q++) {
        const limber_contract contract = { .size = sizeof(limber_contract),
                                           .promise = contracts[q].promise,
                                           .bits = contracts[q].bits,
                                           .scheme = contracts[q].scheme };
        double allowed = contract.promise == LIMBER_CONTRACT_BITS ? ldexp(1, -contract.bits) + u :
                                                                    (double)(k + 2) * u;
        limber_status status =
            limber_gemm(ctx, &contract, m, n, k, NULL, (limber_matrix){ x, f, k, 1 },
                        (limber_matrix){ y, f, 1, k }, NULL, (limber_output){ c, f, n, 1 }, NULL);

        if (status == LIMBER_STATUS_NO_SCHEME && contract.scheme)
            continue; /* refused: the range of exponents is too wide for this contract */
        assert_int_equal(status, LIMBER_STATUS_OK);
        for (int i = 0; i < samples; i++) {
            int64_t row = rng_below(&r, (int)m), col = rng_below(&r, (int)n);
            const char *at = c + (row * n + col) * f.size;

            ref_dot(s, scale, f, x + row * k * f.size, 1, f, y + col * k * f.size, 1, k);
            if (contract.promise == LIMBER_CONTRACT_CORRECT)
                assert_true(ref_rounds_to(s, f, at));
            else
                assert_true(ref_error(s, f, at, scale) <= allowed);
        }
    }
    mpfr_clears(s, scale, (mpfr_ptr)NULL);
    free(x);
    free(y);
    free(c);
}

/* ---- a basis of a linear programme ----------------------------------------------------------- */

/* Reads a Matrix Market file into a dense matrix, which the caller frees. */
static double *read_mtx(FILE *f, int *rows, int *cols)
{
    char line[1024];
    int entries, i, j;
    double v, *x;

    while (fgets(line, sizeof line, f) && *line == '%')
        ;
    assert_int_equal(sscanf(line, "%d %d %d", rows, cols, &entries), 3);
    x = calloc((size_t)*rows * (size_t)*cols, sizeof *x);
    while (entries-- > 0 && fscanf(f, "%d %d %lf", &i, &j, &v) == 3)
        x[(i - 1) * *cols + j - 1] = v;
    return x;
}

/* Multiplies a sparse matrix of a linear programme by its transpose under several contracts.
 * Skipped without the data file. */
static void linear_programme(void **state)
{
    FILE *f = open_data_file("mtx/bp__1400.mtx", false);
    int rows, cols;
    double *x;

    (void)state;
    if (!f)
        skip_because("LIMBER_DATA lacks the file");
    x = read_mtx(f, &rows, &cols);
    fclose(f);
    check_contracts(x, rows, x, rows, cols, "f64", 40);
    check_contracts(x, rows, x, rows, cols, "f32", 40);
    free(x);
}

/* ---- real images ----------------------------------------------------------------------------- */

/* Products of images of handwritten digits are right under every contract and in integers. */
static void images(void **state)
{
    enum { COUNT = 400, PIXELS = 28 * 28, HEAD = 16 };
    FILE *f = open_data_file("mnist/t10k-images-idx3-ubyte.gz", true);
    const limber_contract exact = { .size = sizeof(limber_contract),
                                    .promise = LIMBER_CONTRACT_EXACT };
    unsigned char *pixel;
    int32_t *c;
    double *x;

    (void)state;
    if (!f)
        skip_because("LIMBER_DATA lacks the file");
    pixel = malloc(HEAD + COUNT * PIXELS);
    assert_int_equal(fread(pixel, 1, HEAD + COUNT * PIXELS, f), HEAD + COUNT * PIXELS);
    pclose(f);
    x = malloc(COUNT * PIXELS * sizeof *x);
    c = malloc(COUNT * COUNT * sizeof *c);
    for (int i = 0; i < COUNT * PIXELS; i++)
        x[i] = pixel[HEAD + i];
    check_contracts(x, COUNT, x, COUNT, PIXELS, "f32", 20);
    assert_int_equal(limber_gemm(ctx, &exact, COUNT, COUNT, PIXELS, NULL,
                                 (limber_matrix){ pixel + HEAD, named("u8"), PIXELS, 1 },
                                 (limber_matrix){ pixel + HEAD, named("u8"), 1, PIXELS }, NULL,
                                 (limber_output){ c, named("i32"), COUNT, 1 }, NULL),
                     LIMBER_STATUS_OK);
    for (int i = 0; i < COUNT; i++)
        for (int j = i; j < COUNT; j++) {
            int32_t sum = 0;

            for (int p = 0; p < PIXELS; p++)
                sum += pixel[HEAD + i * PIXELS + p] * pixel[HEAD + j * PIXELS + p];
            assert_int_equal(c[i * COUNT + j], sum);
        }
    free(pixel);
    free(x);
    free(c);
}

/* Checks convolutions of pixels with filters that are multiples of 2^-10.  All sums are exact in
 * binary64. */
static void convolve_images(const unsigned char *pixel, const limber_conv *s)
{
    const limber_contract correct = { .size = sizeof correct, .promise = LIMBER_CONTRACT_CORRECT };
    const limber_contract native = LIMBER_CONTRACT_INIT, *contracts[2] = { &correct, &native };
    struct rng r = { 28 };
    struct trial t = { .s = *s };

    trial_open(&t);
    for (int64_t i = 0; i < t.count[X]; i++)
        t.v[X][i] = pixel[i];
    for (int64_t i = 0; i < t.count[W]; i++)
        t.v[W][i] = (rng_below(&r, 2048) - 1024) * 0x1p-10;
    for (int64_t i = 0; i < t.count[Y]; i++)
        t.v[Y][i] = (rng_below(&r, 2048) - 1024) * 0x1p-10;
    for (int d = 0; d < DIRECTIONS; d++) {
        int tensor = written[d];
        char *a = stored(&t, reads[d][0], LIMBER_F32), *b = stored(&t, reads[d][1], LIMBER_F32);
        double *sum = calloc((size_t)t.count[tensor], sizeof *sum);
        float *c = malloc((size_t)t.count[tensor] * sizeof *c);

        convolve_by_definition(&t, d, sum);
        for (int k = 0; k < 2; k++) {
            if (run_direction(ctx, d, contracts[k], s, LIMBER_F32, a, b, LIMBER_F32, c, NULL, NULL,
                              NULL))
                fail_msg("%s", limber_error_text());
            for (int64_t i = 0; i < t.count[tensor]; i++) {
                float got = c[place(&t, tensor, i)];
                double off = fabs((double)got - sum[i]);

                if (k == 0 ? got != (float)sum[i] : !(off <= 1e-2 + 1e-5 * fabs(sum[i])))
                    fail_msg("direction %d, layout %d, %d groups, element %lld: %g, not %g", d,
                             (int)s->layout, (int)s->groups, (long long)i, (double)got, sum[i]);
            }
        }
        free(a);
        free(b);
        free(sum);
        free(c);
    }
    trial_close(&t);
}

/* Convolutions of handwritten digits are right: eight images with eight filters, or eight images
 * as the channels of a depthwise convolution. */
static void image_convolutions(void **state)
{
    enum { COUNT = 8, SIDE = 28, HEAD = 16 };
    FILE *f = open_data_file("mnist/t10k-images-idx3-ubyte.gz", true);
    unsigned char pixel[HEAD + COUNT * SIDE * SIDE];

    (void)state;
    if (!f)
        skip_because("LIMBER_DATA lacks the file");
    assert_int_equal(fread(pixel, 1, sizeof pixel, f), sizeof pixel);
    pclose(f);
    for (int depthwise = 0; depthwise < 2; depthwise++)
        for (int stride = 1; stride < 3; stride++)
            for (int nhwc = 0; nhwc < 2; nhwc++) {
                limber_conv s = LIMBER_CONV_INIT;

                s.n = depthwise ? 1 : COUNT;
                s.c = s.groups = depthwise ? COUNT : 1;
                s.o = depthwise ? 2 * COUNT : COUNT;
                s.h = s.w = SIDE;
                s.r = s.s = 3;
                s.stride[0] = s.stride[1] = stride;
                s.dilate[0] = s.dilate[1] = 1;
                s.pad[0] = s.pad[1] = s.pad[2] = s.pad[3] = 1;
                s.layout = nhwc ? LIMBER_LAYOUT_NHWC : LIMBER_LAYOUT_NCHW;
                convolve_images(pixel + HEAD, &s);
            }
}

/* ---- unitaries of circuits ------------------------------------------------------------------- */

enum { MOST_QUBITS = 8 };

/* A circuit of quantum gates. */
struct circuit {
    int qubits;
    double complex *u; /* the unitary by columns, which are the images of the basis states */
};

/* Evaluates a product or quotient of signed numbers and pi. */
static double parse_angle(const char *s)
{
    double v = 1;
    char op = '*';

    for (;;) {
        char *end;
        double x, sign = 1;

        for (; *s == ' ' || *s == '-'; s++)
            sign = *s == '-' ? -sign : sign;
        x = strncmp(s, "pi", 2) == 0 ? (end = (char *)(uintptr_t)(s + 2), acos(-1)) :
                                       strtod(s, &end);
        v = op == '*' ? v * sign * x : v / (sign * x);
        op = *end;
        if (op != '*' && op != '/')
            return v;
        s = end + 1;
    }
}

/* Applies the 2 x 2 gate g to every column.  control: the controlling qubit, or -1 if there is
 * none. */
static void apply_gate(struct circuit *c, const double complex g[4], int target, int control)
{
    int64_t n = (int64_t)1 << c->qubits, bit = (int64_t)1 << target;

    for (int64_t col = 0; col < n; col++)
        for (int64_t i = 0; i < n; i++) {
            double complex *x = c->u + col * n, a = x[i], b;

            if (i & bit || (control >= 0 && !(i >> control & 1)))
                continue;
            b = x[i | bit];
            x[i] = g[0] * a + g[1] * b;
            x[i | bit] = g[2] * a + g[3] * b;
        }
}

/* Computes the 2 x 2 matrix of a rotation gate with these angles. */
static void make_rotation(double complex g[4], const char *name, const double t[3])
{
    double c = cos(t[0] / 2), s = sin(t[0] / 2);
    double phi = name[0] == 'u' ? t[1] : name[1] == 'x' ? -acos(-1) / 2 : 0;
    double lambda = name[0] == 'u' ? t[2] : -phi;

    if (strcmp(name, "rz") == 0) {
        g[0] = cexp(-I * t[0] / 2);
        g[1] = g[2] = 0;
        g[3] = cexp(I * t[0] / 2);
        return;
    }
    g[0] = c;
    g[1] = -cexp(I * lambda) * s;
    g[2] = cexp(I * phi) * s;
    g[3] = cexp(I * (phi + lambda)) * c;
}

/* Parses a line and applies its gate.  False if the gate is unknown. */
static bool apply_line(struct circuit *c, char *line)
{
    static const double complex not[4] = { 0, 1, 1, 0 };
    double complex h[4] = { M_SQRT1_2, M_SQRT1_2, M_SQRT1_2, -M_SQRT1_2 }, g[4];
    char name[16] = "", *arguments = strchr(line, '('), *at = strchr(line, '[');
    int q[2] = { 0, -1 };
    double t[3] = { 0, 0, 0 };

    sscanf(line, "%15[a-z0-9]", name);
    for (int i = 0; arguments && i < 3; i++) {
        t[i] = parse_angle(arguments + 1);
        arguments = strpbrk(arguments + 1, ",)");
        if (*arguments == ')')
            arguments = NULL;
    }
    for (int i = 0; at && i < 2; i++, at = strchr(at + 1, '['))
        q[i] = atoi(at + 1);
    if (strcmp(name, "cx") == 0)
        apply_gate(c, not, q[1], q[0]);
    else if (strcmp(name, "x") == 0)
        apply_gate(c, not, q[0], -1);
    else if (strcmp(name, "h") == 0)
        apply_gate(c, h, q[0], -1);
    else if (!strcmp(name, "rx") || !strcmp(name, "ry") || !strcmp(name, "rz") ||
             !strcmp(name, "u3")) {
        make_rotation(g, name, t);
        apply_gate(c, g, q[0], -1);
    } else {
        return false;
    }
    return true;
}

/* Reads a circuit in OpenQASM and applies its gates to the identity matrix.  False if a gate is
 * unknown. */
static bool read_circuit(FILE *f, struct circuit *c)
{
    char line[1024];
    int64_t n = 0;

    while (fgets(line, sizeof line, f)) {
        char *s = line + strspn(line, " \t");

        if (sscanf(s, "qreg %*[^[][%d]", &c->qubits) == 1 && c->qubits <= MOST_QUBITS) {
            n = (int64_t)1 << c->qubits;
            c->u = calloc((size_t)(n * n), sizeof *c->u);
            for (int64_t i = 0; i < n; i++)
                c->u[i * n + i] = 1;
        } else if (islower((unsigned char)*s) && c->u && strncmp(s, "creg", 4) &&
                   strncmp(s, "measure", 7) && strncmp(s, "barrier", 7) && !apply_line(c, s)) {
            print_message("a gate is not known: %s", s);
            return false;
        }
    }
    return c->u != NULL;
}

/* Products of unitary matrices of quantum circuits, which must be exact or within the contracts'
 * bounds. */
static void circuits(void **state)
{
    static const char *const names[] = { "qasm/dnn_n8.qasm", "qasm/qaoa_n6.qasm" };
    bool any = false;

    (void)state;
    for (size_t q = 0; q < sizeof names / sizeof *names; q++) {
        FILE *f = open_data_file(names[q], false);
        struct circuit c = { 0, NULL };
        int64_t n;

        if (f && read_circuit(f, &c)) {
            double *re = malloc(sizeof *re << 2 * c.qubits),
                   *im = malloc(sizeof *im << 2 * c.qubits);
            double sum = 0;

            any = true;
            n = (int64_t)1 << c.qubits;
            for (int64_t i = 0; i < n * n; i++) {
                re[i] = creal(c.u[i]);
                im[i] = cimag(c.u[i]);
            }
            for (int64_t i = 0; i < n; i++) /* The columns of a unitary have norm 1. */
                sum += re[i] * re[i] + im[i] * im[i];
            assert_true(fabs(sum - 1) < 1e-9);
            check_contracts(re, n, im, n, n, "f64", 30);
            check_contracts(re, n, re, n, n, "f32", 30);
            free(re);
            free(im);
        }
        free(c.u);
        if (f)
            fclose(f);
    }
    if (!any)
        skip_because("LIMBER_DATA lacks the files");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_programme),
        cmocka_unit_test(images),
        cmocka_unit_test(image_convolutions),
        cmocka_unit_test(circuits),
    };

    return cmocka_run_group_tests_name("data", tests, make_context, destroy_group_contexts);
}
