/* SPDX-License-Identifier: BSD-3-Clause
 * Copies blocks between C and a buffer, for results whose rows are not contiguous: a block is
 * computed in the buffer and then copied to C. */
#include "backends/llvm/stage.h"

#include "backends/llvm/kernel/join.h"

#include <string.h>

/* Copies an element of `size` bytes. */
static void copy_element(char *to, const char *from, int size)
{
    switch (size) { /* constant lengths for the usual sizes, so that the compiler inlines memcpy */
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    default: memcpy(to, from, (size_t)size); break;
    }
}

/* Columns [j, j + count) of a block, which have a constant distance in C. */
struct stretch {
    char *at; /* address in C of column j in the block's first row */
    int64_t j, count;
};

/* Returns the longest stretch of columns of constant distance that begins at column j of the
 * block. */
static struct stretch stretch_at(const struct staged *s, int64_t j)
{
    int64_t of_c = s->j0 + j, rest = of_c % s->c->inner, left = s->c->inner - rest;

    if (s->c->wide && left > s->c->wide - rest % s->c->wide)
        left = s->c->wide - rest % s->c->wide;
    return (struct stretch){ limber_output_at(s->c, s->i0, of_c, s->size), j,
                             left < s->cols - j ? left : s->cols - j };
}

/* Returns the address in the buffer of element (i, j) of the block. */
static char *buffer_address(const struct staged *s, int64_t i, int64_t j)
{
    return s->buffer + (i * s->row + j) * s->size;
}

/* Copies a block of C to the buffer, one stretch (columns of constant distance) after another. */
void limber_stage_load(const struct staged *s)
{
    int64_t row = s->c->row * s->size, col = s->c->col * s->size;

    for (int64_t j = 0; j < s->cols;) {
        struct stretch x = stretch_at(s, j);

        for (int64_t i = 0; i < s->rows; i++)
            for (int64_t l = 0; l < x.count; l++)
                copy_element(buffer_address(s, i, j + l), x.at + i * row + l * col, s->size);
        j += x.count;
    }
}

/* Stores up to sixteen rows, from row i on, of a stretch whose columns are contiguous in C, by
 * transposing groups of sixteen columns.  Returns the number of columns that were stored; the last,
 * incomplete group is not. */
static int64_t store_columns(const struct staged *s, const struct stretch *x, int64_t i)
{
    int64_t lanes = s->rows - i < KERNEL_LANES ? s->rows - i : KERNEL_LANES;
    int64_t count = x->count / KERNEL_LANES * KERNEL_LANES;
    const char *line[KERNEL_LANES];

    if (s->c->row != 1 || (s->size != 4 && s->size != 8) || count == 0)
        return 0;
    for (int64_t l = 0; l < KERNEL_LANES; l++)
        line[l] = buffer_address(s, i + (l < lanes ? l : lanes - 1), x->j);
    limber_transpose_here()(line, s->size, (int)lanes, x->at + i * s->size, s->c->col * s->size,
                            count);
    return count;
}

/* Copies row i of a stretch to C, from the stretch's column `from` on. */
static void store_row(const struct staged *s, const struct stretch *x, int64_t i, int64_t from)
{
    char *to = x->at + i * s->c->row * s->size;
    int64_t col = s->c->col * s->size;

    if (s->c->col == 1)
        memcpy(to + from * col, buffer_address(s, i, x->j + from),
               (size_t)((x->count - from) * s->size));
    else
        for (int64_t l = from; l < x->count; l++)
            copy_element(to + l * col, buffer_address(s, i, x->j + l), s->size);
}

/* Stores a row whose columns that are neighbours in C are `inner` columns apart in the block, as
 * the channels of NHWC filters are.  Gathers the elements of each contiguous run of C and stores
 * the run. */
static void store_interleaved_row(const struct staged *s, int64_t i)
{
    const int64_t step = s->c->inner, rest = s->j0 % step;

    for (int64_t of = 0; of < step; of++) {
        const int64_t j = (of + step - rest) % step;
        const int64_t count = j < s->cols ? (s->cols - j + step - 1) / step : 0;
        char *to = count ? limber_output_at(s->c, s->i0 + i, s->j0 + j, s->size) : NULL;

        if (s->size == 4) /* constant lengths, so that the compiler inlines memcpy */
            join_steps(to, buffer_address(s, i, j), step, count, 4);
        else if (s->size == 8)
            join_steps(to, buffer_address(s, i, j), step, count, 8);
        else
            join_steps(to, buffer_address(s, i, j), step, count, s->size);
    }
}

/* Copies the buffer to a block of C: by transposing if columns of C are contiguous, else row by
 * row. */
void limber_stage_store(const struct staged *s)
{
    if (s->c->outer == 1 && !s->c->wide && !s->c->cols && s->c->inner > 1 &&
        s->c->inner < s->cols) {
        for (int64_t i = 0; i < s->rows; i++)
            store_interleaved_row(s, i);
        return;
    }
    for (int64_t j = 0; j < s->cols;) {
        struct stretch x = stretch_at(s, j);

        for (int64_t i = 0; i < s->rows; i += KERNEL_LANES) {
            int64_t done = store_columns(s, &x, i);

            for (int64_t l = i; l < i + KERNEL_LANES && l < s->rows && done < x.count; l++)
                store_row(s, &x, l, done);
        }
        j += x.count;
    }
}
