/* SPDX-License-Identifier: BSD-3-Clause
 * The kernel that computes an epilogue's steps, or a function, on arrays in device memory;
 * jit/operators computes them on the host.  The source defines these before this file: FROM, TO,
 * INPUT, NARROW, ONCE, COPY, ROUNDING, and the steps as macros LINES and LAST. */
#ifndef LIMBER_CUDA_STEPS_H
#define LIMBER_CUDA_STEPS_H

enum { STEPS_THREADS = 256 };

/* Rounds x to the format in which steps are computed: FP32 if NARROW, else FP64. */
DEVICE double rounded(double x)
{
    return NARROW ? (double)(float)x : x;
}

/* Returns the maximum as the step `max` defines it: NaN if x or y is NaN. */
DEVICE double larger(double x, double y)
{
    return x > y || x != x ? x : y;
}

/* Returns the minimum as the step `min` defines it: NaN if x or y is NaN. */
DEVICE double smaller(double x, double y)
{
    return x < y || x != x ? x : y;
}

/* Defines function_NAME(x, parameters) in FP64 for each function.  sin, cos and tan use another
 * argument reduction far from 0. */
#define DEFINE(NAME, name) \
    DEVICE double function_##name(double x, struct fn_args a) \
    { \
        return fn_value(fn_##name(x, &a), x, a.odd); \
    }
FN_PLAIN(DEFINE)
#undef DEFINE

#define DEFINE(name) \
    DEVICE double function_##name(double x, struct fn_args a) \
    { \
        return fn_value(FN_ABS(x) >= FN_FAR ? fn_##name##_far(x) : fn_##name(x, &a), x, a.odd); \
    }
DEFINE(sin)
DEFINE(cos)
DEFINE(tan)
#undef DEFINE

DEVICE double function_isnan(double x, struct fn_args) { return fn_isnan(x); }
DEVICE double function_isinf(double x, struct fn_args) { return fn_isinf(x); }

/* ---- numbers in memory ----------------------------------------------------------------------- */

/* True for floats of 8 or 16 bits that small.h converts. */
constexpr bool is_small(limber_format f)
{
    return f.kind == LIMBER_KIND_FLOAT && !f.carried && f.size <= 2 &&
           !(f.flags & (LIMBER_FORMAT_NO_SUBNORMAL | LIMBER_FORMAT_NO_MINUS_ZERO));
}

/* True for a float of `size` bytes with `exponent` exponent bits; also if its elements are stored
 * in a float of this size. */
constexpr bool is_binary(limber_format f, int size, int exponent)
{
    return f.kind == LIMBER_KIND_FLOAT && f.size == size && f.exp_bits == exponent &&
           (f.carried || f.frac_bits == 8 * size - 1 - exponent);
}

/* True if numbers of the format are stored as FP64, or as FP32. */
constexpr bool is_f64(limber_format f) { return is_binary(f, 8, 11) || (f.carried && f.size == 8); }
constexpr bool is_f32(limber_format f) { return is_binary(f, 4, 8) || (f.carried && f.size == 4); }

/* Loads a number of format I as the nearest double.  The number is rounded only in formats that
 * occur only in casts. */
template <class I> DEVICE double load_double(const char *at)
{
    constexpr limber_format f = I::f;
    double x;

    if constexpr (is_f64(f))
        return load<double>(at);
    else if constexpr (is_f32(f))
        return (double)load<float>(at);
    else if constexpr (is_small(f)) {
        const struct small s = small_of(f);

        return small_value(&s, load_raw<f.size>(at), f.flags & LIMBER_FORMAT_NO_INF);
    } else {
        typename raw_of<f.size>::type bits = load_raw<f.size>(at);
        struct limber_num n;
        int sticky = 0;

        if constexpr (f.kind == LIMBER_KIND_DD)
            sticky = limber_num_decode_dd(&n, &bits);
        else
            limber_num_decode(&n, f, &bits);
        limber_num_encode(&x, limber_binary64(), &n, sticky, LIMBER_ROUND_NEAREST);
        return x;
    }
}

/* Rounds an exact number to format O and stores it.  sticky: 1 if nonzero bits below the number's
 * last bit have been dropped. */
template <class O> DEVICE void store_num(char *to, const struct limber_num *n, int sticky)
{
    constexpr limber_format f = O::f;
    typename raw_of<f.size>::type bits;

    if constexpr (f.kind == LIMBER_KIND_DD)
        limber_num_encode_dd(&bits, n, sticky, ROUNDING);
    else
        limber_num_encode(&bits, f, n, sticky, ROUNDING);
    store_raw<f.size>(to, &bits);
}

/* Rounds a double to format O and stores it. */
template <class O> DEVICE void store_double(char *to, double x)
{
    constexpr limber_format f = O::f;
    constexpr bool nearest = ROUNDING == LIMBER_ROUND_NEAREST;

    if constexpr (is_f64(f) && !f.carried)
        store(to, fn_one_nan(x));
    else if constexpr (is_f32(f) && !f.carried && nearest)
        store(to, x != x ? bits_float(0x7fc00000) : (float)x);
    else if constexpr (is_small(f) && nearest) {
        const struct small s = small_of(f);

        store(to, (typename raw_of<f.size>::type)small_code(&s, x));
    } else {
        struct limber_num n;

        limber_num_from_f64(&n, x);
        store_num<O>(to, &n, 0);
    }
}

/* Converts a number from format I to O without rounding to a double first. */
template <class I, class O> DEVICE void copy_number(char *to, const char *from)
{
    constexpr limber_format f = I::f;
    typename raw_of<f.size>::type bits = load_raw<f.size>(from);
    struct limber_num n;
    int sticky = 0;

    if constexpr (f.kind == LIMBER_KIND_DD)
        sticky = limber_num_decode_dd(&n, &bits);
    else
        limber_num_decode(&n, f, &bits);
    store_num<O>(to, &n, sticky);
}

/* ---- the kernel: one element at a time per thread -------------------------------------------- */

struct from_format { static constexpr limber_format f = FROM; };
struct to_format { static constexpr limber_format f = TO; };
template <int i> struct input_format { static constexpr limber_format f = INPUT[i]; };

/* Returns the address of an element of an array. */
DEVICE char *place(const struct steps_numbers &n, int64_t plane, int64_t row, int64_t col, int size)
{
    return n.data + (plane * n.plane + row * n.row + col * n.col) * size;
}

/* Returns the number of input i that belongs to an element. */
template <int i> DEVICE double input(const steps_args &a, int64_t plane, int64_t row, int64_t col)
{
    return rounded(load_double<input_format<i>>(
        place(a.input[i], plane, row, col, INPUT[i].size)));
}

/* Computes the steps for all elements.  Each thread loops over elements. */
KERNEL(limber_steps, struct steps_args, STEPS_THREADS, 1)
{
    int64_t all = args.planes * args.rows * args.cols;
    int64_t step = (int64_t)blocks() * STEPS_THREADS;

    ROLL for (int64_t x = (int64_t)block() * STEPS_THREADS + thread(); x < all; x += step) {
        int64_t line = args.planes * args.rows > 1 ? limber_quotient(x, args.cols) : 0;
        int64_t plane = args.planes > 1 ? limber_quotient(line, args.rows) : 0;
        int64_t col = x - line * args.cols, row = line - plane * args.rows;
        const char *from = place(args.from, plane, row, col, FROM.size);
        char *to = place(args.to, plane, row, col, TO.size);

        if (COPY) {
            copy_number<from_format, to_format>(to, from);
        } else {
            double v0 = load_double<from_format>(from);

            if (!ONCE)
                v0 = rounded(v0);
            LINES
            store_double<to_format>(to, LAST);
        }
    }
}

#endif
