/* SPDX-License-Identifier: BSD-3-Clause
 * Every invalid argument is refused by its name, and C stays unchanged. */
#include "contexts.h"
#include "engine_support.h"

#include <math.h>

/* A valid call of limber_gemm, whose arguments the tests make invalid one by one. */
struct trial {
    limber_context *ctx;
    limber_contract contract, *pcontract;
    int64_t m, n, k;
    double a[64], b[64], c[64];
    limber_matrix ma, mb, mc;
};

static limber_context *shared;

static int create_shared_context(void **state)
{
    (void)state;
    shared = counted_group_context();
    return 0;
}

/* Fills *t with a valid product of ones from which each test starts. */
static void make_valid_call(struct trial *t)
{
    limber_format f64 = named("f64");

    memset(t, 0, sizeof *t);
    t->ctx = shared;
    t->contract =
        (limber_contract){ .size = sizeof(limber_contract), .promise = LIMBER_CONTRACT_NATIVE };
    t->pcontract = &t->contract;
    t->m = 3;
    t->n = 4;
    t->k = 5;
    for (int i = 0; i < 64; i++)
        t->a[i] = t->b[i] = 1, t->c[i] = 7;
    t->ma = (limber_matrix){ t->a, f64, 5, 1 };
    t->mb = (limber_matrix){ t->b, f64, 4, 1 };
    t->mc = (limber_matrix){ t->c, f64, 4, 1 };
}

/* Runs the trial's product. */
static limber_status run_trial(struct trial *t)
{
    return limber_gemm(t->ctx, t->pcontract, t->m, t->n, t->k, NULL, t->ma, t->mb, NULL,
                       output_of(t->mc), NULL);
}

/* Fails the test unless the call is refused with a text that contains `word`, and C is
 * unchanged. */
static void expect_refused(struct trial *t, const char *word)
{
    assert_refused(run_trial(t), LIMBER_STATUS_BAD_ARGUMENT, word);
    if (strncmp(limber_error_text(), "gemm: ", 6) != 0)
        fail_msg("\"%s\" does not begin with the function", limber_error_text());
    for (int i = 0; i < 64; i++)
        assert_true(t->c[i] == 7);
}

/* Makes a valid call, applies a change, and expects a refusal that names the argument. */
#define BAD(change, word) \
    do { \
        struct trial t; \
        make_valid_call(&t); \
        change; \
        expect_refused(&t, word); \
    } while (0)

/* The valid call that all tests change slightly is accepted and gives the right C. */
static void a_good_call_passes(void **state)
{
    struct trial t;

    (void)state;
    make_valid_call(&t);
    assert_int_equal(run_trial(&t), LIMBER_STATUS_OK);
    for (int i = 0; i < 12; i++)
        assert_true(t.c[i] == 5);
    assert_true(t.c[12] == 7);
}

/* Negative sizes and NULL pointers are refused, with the argument's name. */
static void sizes_and_pointers(void **state)
{
    (void)state;
    BAD(t.ctx = NULL, "ctx is NULL");
    BAD(t.m = -1, "m = -1");
    BAD(t.n = INT64_MIN, "n = -9223372036854775808");
    BAD(t.k = -3, "k = -3");
    BAD(t.ma.data = NULL, "a.data");
    BAD(t.mb.data = NULL, "b.data");
    BAD(t.mc.data = NULL, "c.data");
}

/* Invalid strides of A, B and C are refused, with the argument's name. */
static void strides(void **state)
{
    (void)state;
    BAD(t.ma.row_stride = -1, "a.row_stride = -1");
    BAD(t.ma.col_stride = -2, "a.col_stride = -2");
    BAD(t.mb.row_stride = -1, "b.row_stride");
    BAD(t.mc.col_stride = -1, "c.col_stride");
    BAD(t.mc.row_stride = 0, "c: row_stride");
    /* rows of four elements at a distance of three overlap */
    BAD(t.mc.row_stride = 3, "c: row_stride");
    BAD((t.mc.row_stride = 2, t.mc.col_stride = 2), "c: row_stride");
    /* elements (2,0) and (0,3) have the same address */
    BAD((t.mc.row_stride = 6, t.mc.col_stride = 4), "c: row_stride");
    BAD(t.ma.row_stride = INT64_MAX, "a: ");
    BAD(t.mb.col_stride = INT64_MAX / 2, "b: ");
    BAD((t.m = INT64_MAX, t.k = INT64_MAX, t.ma.row_stride = t.ma.col_stride = 0), "a: ");
    BAD((t.k = INT64_MAX / 64, t.ma.row_stride = t.ma.col_stride = 0), "a: ");
}

/* Unusual strides are accepted if no two elements of C coincide. */
static void strides_that_are_distinct(void **state)
{
    struct trial t;

    (void)state;
    make_valid_call(&t);
    /* all addresses of C are distinct: row i begins at 2 i, and elements of a row are 7 apart */
    t.mc.row_stride = 2;
    t.mc.col_stride = 7;
    assert_int_equal(run_trial(&t), LIMBER_STATUS_OK);
    assert_true(t.c[25] == 5 && t.c[1] == 7);
    make_valid_call(&t);
    t.ma.row_stride = t.ma.col_stride = 0; /* elements of operands may share memory */
    assert_int_equal(run_trial(&t), LIMBER_STATUS_OK);
    make_valid_call(&t);
    t.m = 1;
    t.mc.row_stride = 0; /* C has a single row: the row stride does not matter */
    assert_int_equal(run_trial(&t), LIMBER_STATUS_OK);
}

/* Products without elements or without terms need no operands. */
static void empty_products(void **state)
{
    static const double beta = 2;
    struct trial t;

    (void)state;
    make_valid_call(&t);
    t.m = 0;
    t.ma.data = t.mc.data = NULL;
    assert_int_equal(run_trial(&t), LIMBER_STATUS_OK);
    make_valid_call(&t);
    t.k = 0;
    t.ma.data = t.mb.data = NULL;
    assert_int_equal(run_trial(&t), LIMBER_STATUS_OK);
    assert_true(t.c[0] == 0 && t.c[11] == 0 && t.c[12] == 7);
    make_valid_call(&t);
    t.k = 0;
    assert_int_equal(limber_gemm(t.ctx, t.pcontract, t.m, t.n, t.k, NULL, t.ma, t.mb, &beta,
                                 output_of(t.mc), NULL),
                     LIMBER_STATUS_OK);
    assert_true(t.c[0] == 14 && t.c[12] == 7);
}

/* C that shares at least one byte with A or B is refused; C just before A is not. */
static void overlapping_operands_are_refused(void **state)
{
    struct trial t;

    (void)state;
    BAD(t.ma.data = t.c, "overlaps a");
    BAD(t.mb.data = t.c + 11, "overlaps b");
    BAD(t.ma.data = (char *)t.c + 95, "overlaps a");
    BAD((t.ma.data = t.c, t.ma.row_stride = 0, t.ma.col_stride = 0), "overlaps a");
    make_valid_call(&t);
    t.ma.data = t.c + 12; /* C is just before A in memory */
    assert_int_equal(run_trial(&t), LIMBER_STATUS_OK);
}

/* Computes C -= A B on blocks of one 8 x 8 array, as in a blocked factorisation. */
static void blocks_of_one_array(void **state)
{
    struct trial t;

    (void)state;
    make_valid_call(&t);
    t.m = t.n = 4;
    t.k = 4;
    t.ma = (limber_matrix){ t.c + 4, t.ma.format, 1, 8 }; /* rows 4-7, columns 0-3 */
    t.mb = (limber_matrix){ t.c + 32, t.ma.format, 1, 8 }; /* rows 0-3, columns 4-7 */
    t.mc = (limber_matrix){ t.c + 36, t.ma.format, 1, 8 }; /* rows 4-7, columns 4-7 */
    assert_int_equal(run_trial(&t), LIMBER_STATUS_OK);
    assert_true(t.c[36] == 4 * 49 && t.c[63] == 4 * 49 && t.c[35] == 7 && t.c[28] == 7);
    make_valid_call(&t);
    t.m = t.n = t.k = 4;
    t.ma = (limber_matrix){ t.c + 4, t.ma.format, 1, 8 };
    /* C has rows 7 to 10 of a column of eight: it overlaps the next column of A */
    t.mc = (limber_matrix){ t.c + 7, t.ma.format, 1, 8 };
    expect_refused(&t, "overlaps a");
    t.mc = (limber_matrix){ t.c + 3, t.ma.format, 1, 8 }; /* rows 3-6 overlap rows 4-7 */
    expect_refused(&t, "overlaps a");
}

/* Invalid formats of A, B and C are refused, with the argument's name. */
static void formats(void **state)
{
    (void)state;
    BAD(memset(&t.ma.format, 0, sizeof t.ma.format), "a: format");
    BAD(t.mb.format.kind = 77, "b: format");
    BAD(t.mc.format.size = 0, "c: format");
    BAD(t.mc.format.size = 200, "c: format");
    BAD(t.ma.format.exp_bits = 40, "a: format");
    BAD(t.mc.format = named("u8"), "c: u8 is for operands");
    BAD((memset(&t.ma.format, 0, sizeof t.ma.format), t.ma.format.kind = LIMBER_KIND_EXACT),
        "a: format exact");
}

/* Each invalid field of a contract, or combination of fields, is refused with a text that names
 * it. */
static void contracts(void **state)
{
    (void)state;
    BAD(t.contract.promise = (limber_promise)9, "contract.promise = 9");
    BAD(t.contract.promise = LIMBER_CONTRACT_EXACT, "c is f64");
    BAD(t.contract.promise = LIMBER_CONTRACT_BITS, "contract.bits = 0");
    BAD((t.contract.promise = LIMBER_CONTRACT_BITS, t.contract.bits = 161), "contract.bits = 161");
    BAD(t.contract.promise = LIMBER_CONTRACT_FAST, "contract.scheme is NULL");
    BAD(t.contract.scheme = "nonsense", "contract.scheme = \"nonsense\"");
    BAD(t.contract.slices = -1, "contract.slices = -1");
    BAD(t.contract.slices = 7, "contract.slices = 7, but contract.scheme = NULL");
    BAD((t.contract.slices = 7, t.contract.scheme = "accumulator"),
        "contract.slices = 7, but contract.scheme = accumulator");
    BAD(t.contract.split = 3, "contract.split = 3");
}

/* limber_create refuses invalid configurations with a text that names the field, and sets the
 * context to NULL. */
static void contexts(void **state)
{
    limber_context *ctx = shared;

    (void)state;
    assert_int_equal(limber_create(NULL, NULL), LIMBER_STATUS_BAD_ARGUMENT);
    assert_int_equal(
        limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config), .backend = "abacus" }),
        LIMBER_STATUS_BAD_ARGUMENT);
    assert_null(ctx);
    assert_non_null(strstr(limber_error_text(), "backend = \"abacus\""));
    assert_refused(
        limber_create(&ctx, &(limber_config){ .size = sizeof(limber_config), .threads = -1 }),
        LIMBER_STATUS_BAD_ARGUMENT, "threads = -1");
    limber_destroy(NULL);
}

/* Invalid values of environment variables are refused with a text that names the variable; valid
 * ones are used. */
static void bad_environment_variables_are_refused(void **state)
{
    static const char *const bad[][2] = {
        { "LIMBER_THREADS", "many" },
        { "LIMBER_THREADS", "0" },
        { "LIMBER_THREADS", "-2" },
        { "LIMBER_THREADS", "99999999999999999999" },
        { "OMP_NUM_THREADS", "x" },
        { "LIMBER_CACHE", "yes" },
        { "LIMBER_CACHE_MAXSIZE", "-1" },
        { "LIMBER_CACHE_MAXSIZE", "1X" },
        { "LIMBER_CACHE_MAXSIZE", "99999999999G" },
        { "LIMBER_NO_COMPILE", "2" },
        { "LIMBER_WAYS", "-fast" },
        { "LIMBER_WAYS", "direct" },
        { "LIMBER_WAYS", "-direct,-interpreter" },
        { "LIMBER_VERBOSE", "loud" },
        { "LIMBER_BACKEND", "abacus" },
    };
    limber_context *ctx;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        setenv(bad[i][0], bad[i][1], 1);
        if (limber_create(&ctx, NULL) != LIMBER_STATUS_BAD_ARGUMENT ||
            !strstr(limber_error_text(), bad[i][0]))
            fail_msg("%s=%s gives \"%s\"", bad[i][0], bad[i][1], limber_error_text());
        assert_null(ctx);
        unsetenv(bad[i][0]);
    }
    setenv("LIMBER_THREADS", "3", 1);
    setenv("LIMBER_CACHE_MAXSIZE", "2M", 1);
    ctx = counted_context(NULL);
    assert_int_equal(limber_pool_runner(ctx->pool).workers, 3);
    limber_destroy(ctx);
    unsetenv("LIMBER_THREADS");
    setenv("OMP_NUM_THREADS", "5,2", 1);
    ctx = counted_context(NULL);
    assert_int_equal(limber_pool_runner(ctx->pool).workers, 5);
    limber_destroy(ctx);
    unsetenv("OMP_NUM_THREADS");
    unsetenv("LIMBER_CACHE_MAXSIZE");
}

/* The default folder of the cache follows from XDG_CACHE_HOME and HOME; without both the library
 * works without a cache. */
static void cache_directories(void **state)
{
    char *dir = scratch(), want[5000];
    const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
    char *old_home = home ? strdup(home) : NULL, *old_xdg = xdg ? strdup(xdg) : NULL;
    limber_cache_info info = LIMBER_CACHE_INFO_INIT;
    limber_context *ctx;

    (void)state;
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", dir, 1);
    ctx = counted_context(NULL);
    snprintf(want, sizeof want, "%s/.cache/limber", dir);
    limber_cache_describe(ctx, &info);
    assert_string_equal(info.directory, want);
    assert_int_equal(small_gemm(ctx, NULL), LIMBER_STATUS_OK);
    limber_cache_describe(ctx, &info);
    assert_int_equal(info.entries, 1);
    limber_destroy(ctx);
    /* XDG's specification: relative paths are ignored */
    setenv("XDG_CACHE_HOME", "relative", 1);
    ctx = counted_context(NULL);
    limber_cache_describe(ctx, &info);
    assert_string_equal(info.directory, want);
    limber_destroy(ctx);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    ctx = counted_context(NULL);
    limber_cache_describe(ctx, &info);
    assert_string_equal(info.directory, "");
    assert_non_null(strstr(info.why_not, "HOME"));
    assert_int_equal(small_gemm(ctx, NULL), LIMBER_STATUS_OK);
    limber_destroy(ctx);
    if (old_home)
        setenv("HOME", old_home, 1);
    if (old_xdg)
        setenv("XDG_CACHE_HOME", old_xdg, 1);
    free(old_home);
    free(old_xdg);
    discard(dir);
}

/* ---- convolutions with wrong arguments ------------------------------------------------------- */

/* A valid call of a convolution, for the same purpose. */
struct conv_trial {
    limber_conv s;
    double x[256], w[256], y[256];
    const void *px, *pw; /* the operands in the order of the call's arguments */
    void *py;
};

/* [direction]: names of the two operands and of the result in error texts */
static const char *const tensor_names[][3] = { { "x", "w", "y" },
                                               { "dy", "w", "dx" },
                                               { "x", "dy", "dw" } };
enum { WAYS = sizeof tensor_names / sizeof *tensor_names };

/* Fills *t with a valid convolution from which each test starts. */
static void make_valid_conv(struct conv_trial *t)
{
    memset(t, 0, sizeof *t);
    t->s = (limber_conv){ .size = sizeof(limber_conv),
                          .n = 2,
                          .c = 4,
                          .h = 4,
                          .w = 5,
                          .o = 4,
                          .r = 3,
                          .s = 2,
                          .stride = { 1, 2 },
                          .dilate = { 1, 1 },
                          .pad = { 1, 0, 0, 1 },
                          .groups = 2 };
    for (int i = 0; i < 256; i++) {
        t->x[i] = i % 7 - 3;
        t->w[i] = i % 5 - 2;
        t->y[i] = 7;
    }
    t->px = t->x;
    t->pw = t->w;
    t->py = t->y;
}

/* Computes a convolution (way 0) or its gradient of the image (1) or of the filters (2). */
static limber_status run_conv(struct conv_trial *t, int way)
{
    static limber_status (*const calls[WAYS])(
        limber_context *, const limber_contract *, const limber_conv *, const void *, const void *,
        limber_format, const void *, limber_format, const void *, void *, limber_format,
        limber_report *) = { limber_conv2d, limber_conv2d_backward_data,
                             limber_conv2d_backward_filter };
    const limber_contract contract = { .size = sizeof(limber_contract),
                                       .promise = LIMBER_CONTRACT_NATIVE };
    limber_format f64 = named("f64");

    return calls[way](shared, &contract, &t->s, NULL, t->px, f64, t->pw, f64, NULL, t->py, f64,
                      NULL);
}

/* Makes a valid convolution, applies a change, and expects a refusal in every direction. */
#define BAD_CONV(change, ...) \
    for (int way = 0; way < WAYS; way++) { \
        const char *const *name = tensor_names[way]; \
        struct conv_trial t; \
        char word[64]; \
        make_valid_conv(&t); \
        change; \
        snprintf(word, sizeof word, __VA_ARGS__); \
        if (run_conv(&t, way) != LIMBER_STATUS_BAD_ARGUMENT || !strstr(limber_error_text(), word)) \
            fail_msg("direction %d: \"%s\" does not name %s", way, limber_error_text(), word); \
        for (int i = 0; i < 256; i++) \
            assert_true(t.y[i] == 7); \
        (void)name; \
    }

/* Invalid sizes, strides and addresses of a convolution are refused, with the argument's name, in
 * every direction. */
static void shapes(void **state)
{
    (void)state;
    BAD_CONV(t.s.n = -1, "conv.n = -1");
    BAD_CONV(t.s.c = -1, "conv.c");
    BAD_CONV(t.s.r = 0, "conv.r = 0");
    BAD_CONV(t.s.s = 9, "conv.s = 9");
    BAD_CONV(t.s.r = 6, "conv.r = 6");
    BAD_CONV(t.s.dilate[0] = 3, "conv.r = 3 with its dilation");
    BAD_CONV(t.s.stride[1] = 0, "conv.stride[1]");
    BAD_CONV(t.s.dilate[0] = 0, "conv.dilate[0]");
    BAD_CONV(t.s.pad[2] = -1, "conv.pad[2]");
    BAD_CONV(t.s.groups = 0, "conv.groups");
    BAD_CONV(t.s.groups = 3, "conv.groups = 3");
    BAD_CONV(t.s.layout = (limber_layout)5, "conv.layout = 5");
    BAD_CONV((t.s.h = t.s.w = INT32_MAX, t.s.n = INT32_MAX), "%s: ", way == 1 ? "dy" : "x");
    BAD_CONV((t.s.h = t.s.w = INT32_MAX, t.s.n = 0, t.s.c = INT32_MAX - 1, t.s.r = 1),
             "%s: ", way == 1 ? "dy" : "x");
    BAD_CONV(t.s.h = INT64_MAX, "conv.h");
    BAD_CONV(t.px = NULL, "%s.data", name[0]);
    BAD_CONV(t.pw = NULL, "%s.data", name[1]);
    BAD_CONV(t.py = NULL, "%s.data", name[2]);
    BAD_CONV(t.px = t.y, "%s overlaps %s", name[2], name[0]);
    BAD_CONV(t.pw = t.y + 3, "%s overlaps %s", name[2], name[1]);
    /* three-dimensional convolutions: t.s.t and t.s.d are set */
    BAD_CONV((t.s.t = 3, t.s.d = 2), "conv.t = 3");
    BAD_CONV((t.s.t = 2, t.s.d = 3, t.s.depth_dilate = 3), "conv.t = 2 with its dilation");
    BAD_CONV((t.s.t = 1, t.s.d = -1), "conv.d = -1");
    BAD_CONV((t.s.t = -1, t.s.d = 2), "conv.t = -1");
    BAD_CONV((t.s.t = t.s.d = 1, t.s.depth_stride = -1), "conv.depth_stride = -1");
    BAD_CONV((t.s.t = t.s.d = 1, t.s.depth_dilate = -1), "conv.depth_dilate = -1");
    BAD_CONV((t.s.t = t.s.d = 1, t.s.depth_pad[0] = INT64_MAX), "conv.depth_pad");
    BAD_CONV((t.s.t = 1, t.s.d = INT64_MAX), "conv.d");
    BAD_CONV(t.s.d = 2, "conv.t = 0");
}

/* Returns a pixel of the image, 0 in the padding. */
static double image_at(const struct conv_trial *t, int64_t n, int64_t c, int64_t y, int64_t x)
{
    const limber_conv *s = &t->s;

    if (y < 0 || x < 0 || y >= s->h || x >= s->w)
        return 0;
    return t->x[s->layout == LIMBER_LAYOUT_NCHW ? ((n * s->c + c) * s->h + y) * s->w + x :
                                                  ((n * s->h + y) * s->w + x) * s->c + c];
}

/* Returns an element of the filters in either layout. */
static double filter_at(const struct conv_trial *t, int64_t o, int64_t d, int64_t y, int64_t x)
{
    const limber_conv *s = &t->s;
    int64_t depth = s->c / s->groups;

    return t->w[s->layout == LIMBER_LAYOUT_NCHW ? ((o * depth + d) * s->r + y) * s->s + x :
                                                  ((o * s->r + y) * s->s + x) * depth + d];
}

/* Returns an element of a convolution's result, computed from the definition. */
static double convolve_by_definition(const struct conv_trial *t, int64_t n, int64_t o, int64_t i,
                                     int64_t j)
{
    const limber_conv *s = &t->s;
    int64_t depth = s->c / s->groups, first = o / (s->o / s->groups) * depth;
    double sum = 0;

    for (int64_t d = 0; d < depth; d++)
        for (int64_t y = 0; y < s->r; y++)
            for (int64_t x = 0; x < s->s; x++)
                sum += filter_at(t, o, d, y, x) *
                       image_at(t, n, first + d, i * s->stride[0] + y * s->dilate[0] - s->pad[0],
                                j * s->stride[1] + x * s->dilate[1] - s->pad[2]);
    return sum;
}

/* A convolution with dilation, in both layouts, has the size and the elements of the definition,
 * and writes nothing beyond. */
static void convolution_by_its_definition(void **state)
{
    (void)state;
    for (int layout = 0; layout < 2; layout++) {
        struct conv_trial t;
        int64_t oh, ow;

        make_valid_conv(&t);
        t.s.layout = (limber_layout)layout;
        t.s.h = 5;
        t.s.dilate[0] = 2;
        assert_int_equal(limber_conv_output(&t.s, &oh, &ow), LIMBER_STATUS_OK);
        assert_int_equal(oh, 2);
        assert_int_equal(ow, 3);
        assert_int_equal(run_conv(&t, 0), LIMBER_STATUS_OK);
        for (int64_t n = 0; n < t.s.n; n++)
            for (int64_t o = 0; o < t.s.o; o++)
                for (int64_t i = 0; i < oh; i++)
                    for (int64_t j = 0; j < ow; j++)
                        assert_true(t.y[layout ? ((n * oh + i) * ow + j) * t.s.o + o :
                                                 ((n * t.s.o + o) * oh + i) * ow + j] ==
                                    convolve_by_definition(&t, n, o, i, j));
        assert_true(t.y[t.s.n * t.s.o * oh * ow] == 7);
    }
}

/* A sum in the last group overflows.  The results of all groups must then be left unchanged. */
static void exact_results_that_do_not_fit_leave_y(void **state)
{
    const limber_conv s = { .size = sizeof(limber_conv),
                            .n = 1,
                            .c = 3,
                            .h = 2,
                            .w = 2,
                            .o = 3,
                            .r = 1,
                            .s = 1,
                            .stride = { 1, 1 },
                            .dilate = { 1, 1 },
                            .groups = 3 };
    const limber_contract exact = { .size = sizeof(limber_contract),
                                    .promise = LIMBER_CONTRACT_EXACT };
    limber_format i8 = named("i8");
    signed char x[12], w[3] = { 1, 2, 2 }, y[12];
    const int64_t one = 1;
    limber_status st;

    (void)state;
    for (int beta = 0; beta < 2; beta++) {
        for (int last = 63; last <= 64; last++) {
            for (int i = 0; i < 12; i++) {
                x[i] = (signed char)i;
                y[i] = beta; /* 2 * 63 + 1 = 127 is the largest i8 */
            }
            x[11] = (signed char)last;
            st = limber_conv2d(shared, &exact, &s, NULL, x, i8, w, i8, beta ? &one : NULL, y, i8,
                               NULL);
            assert_int_equal(st, last == 63 ? LIMBER_STATUS_OK : LIMBER_STATUS_RANGE);
            for (int i = 0; i < 12; i++)
                assert_int_equal(y[i], last == 63 ? x[i] * w[i / 4] + beta : beta);
        }
    }
    assert_non_null(strstr(limber_error_text(), "1 of the result's elements do not fit i8"));
}

static void remember_line(void *user, const char *line)
{
    snprintf(user, 500, "%s", line);
}

/* The log line of a call starts with the words of the tool's command that repeats it. */
static void a_verbose_call_can_be_repeated(void **state)
{
    char line[500] = "";
    limber_context *ctx = counted_context(&(limber_config){ .size = sizeof(limber_config),
                                                            .cache_dir = "",
                                                            .verbose = 1,
                                                            .log = remember_line,
                                                            .log_user = line });

    (void)state;
    assert_int_equal(small_gemm(ctx, NULL), LIMBER_STATUS_OK);
    assert_int_equal(
        strncmp(line, "limber gemm m=3 n=2 k=4 a=f64 b=f64 c=f64 contract=native  # ", 60), 0);
    assert_non_null(strstr(line, "compiled"));
    limber_destroy(ctx);
}

/* A plan is printed without computing; invalid sizes and texts of plans are refused. */
static void plans_are_printed_or_refused(void **state)
{
    struct trial t;
    char *text;
    limber_report r = LIMBER_REPORT_INIT;

    (void)state;
    make_valid_call(&t);
    t.mc.data = NULL; /* planning does not need C */
    assert_int_equal(gemm_plan(t.ctx, t.pcontract, t.m, t.n, t.k, NULL, t.ma, t.mb, NULL,
                               output_of(t.mc), &text, &r),
                     LIMBER_STATUS_OK);
    assert_non_null(strstr(text, "gemm %a %b"));
    assert_non_null(strstr(text, r.scheme));
    limber_free(text);
    t.m = -1;
    assert_int_equal(gemm_plan(t.ctx, t.pcontract, t.m, t.n, t.k, NULL, t.ma, t.mb, NULL,
                               output_of(t.mc), &text, &r),
                     LIMBER_STATUS_BAD_ARGUMENT);
    assert_null(text);
    assert_refused(limber_plan_text(t.ctx, NULL, NULL, NULL, &text), LIMBER_STATUS_BAD_ARGUMENT,
                   "plan is NULL");
    assert_int_equal(limber_plan_text(t.ctx, "plan {", NULL, NULL, &text),
                     LIMBER_STATUS_BAD_ARGUMENT);
    assert_null(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_call_passes),
        cmocka_unit_test(sizes_and_pointers),
        cmocka_unit_test(strides),
        cmocka_unit_test(strides_that_are_distinct),
        cmocka_unit_test(empty_products),
        cmocka_unit_test(overlapping_operands_are_refused),
        cmocka_unit_test(blocks_of_one_array),
        cmocka_unit_test(formats),
        cmocka_unit_test(contracts),
        cmocka_unit_test(contexts),
        cmocka_unit_test(bad_environment_variables_are_refused),
        cmocka_unit_test(cache_directories),
        cmocka_unit_test(shapes),
        cmocka_unit_test(convolution_by_its_definition),
        cmocka_unit_test(exact_results_that_do_not_fit_leave_y),
        cmocka_unit_test(a_verbose_call_can_be_repeated),
        cmocka_unit_test(plans_are_printed_or_refused),
    };

    clear_environment();
    return cmocka_run_group_tests(tests, create_shared_context, destroy_group_contexts);
}
