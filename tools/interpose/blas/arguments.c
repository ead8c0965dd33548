/* SPDX-License-Identifier: BSD-3-Clause
 * Checks the arguments of a call, and reports wrong ones to the program. */
#define _GNU_SOURCE     /* RTLD_DEFAULT */
#include "blas.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static bool is_one_of(char letter, const char *letters)
{
    return letter && strchr(letters, letter);
}

/* True if the leading dimension of x is large enough.  rows and cols are those of op(x). */
static bool has_valid_lead(const struct request *r, const struct argument *x, int64_t rows,
                           int64_t cols)
{
    int64_t least = (x->op == 'N') == (r->order == BLAS_COLUMNS) ? rows : cols;

    return x->lead >= (least > 1 ? least : 1);
}

/* Returns the position of the first wrong argument of gemm; 0 if all are valid. */
static int wrong_gemm(const struct request *r)
{
    if (!is_one_of(r->a.op, "NTC"))
        return 1;
    if (!is_one_of(r->b.op, "NTC"))
        return 2;
    if (r->m < 0 || r->n < 0 || r->k < 0)
        return r->m < 0 ? 3 : r->n < 0 ? 4 : 5;
    return !has_valid_lead(r, &r->a, r->m, r->k) ? 8 :
           !has_valid_lead(r, &r->b, r->k, r->n) ? 10 :
           !has_valid_lead(r, &r->c, r->m, r->n) ? 13 :
                                                   0;
}

/* Returns the position of the first wrong argument of gemmt, or 0. */
static int wrong_gemmt(const struct request *r)
{
    int wrong = wrong_gemm(r);

    if (!is_one_of(r->uplo, "UL"))
        return 1;
    /* gemmt has no m, so that its n has position 4 */
    return wrong && wrong < 3 ? wrong + 1 : wrong == 3 ? 4 : wrong;
}

/* Returns the number of symm's or hemm's first wrong argument, counted from 1; 0 if all are
 * right. */
static int wrong_symm(const struct request *r)
{
    int64_t order = r->side == 'L' ? r->m : r->n;

    if (!is_one_of(r->side, "LR") || !is_one_of(r->uplo, "UL"))
        return is_one_of(r->side, "LR") ? 2 : 1;
    if (r->m < 0 || r->n < 0)
        return r->m < 0 ? 3 : 4;
    return !has_valid_lead(r, &r->a, order, order) ? 7 :
           !has_valid_lead(r, &r->b, r->m, r->n)   ? 9 :
           !has_valid_lead(r, &r->c, r->m, r->n)   ? 12 :
                                                     0;
}

/* Letters of op that a rank-k or rank-2k update accepts.  herk and her2k take no plain transpose,
 * complex syrk and syr2k no conjugate transpose. */
static const char *valid_ops(const struct request *r)
{
    if (r->routine == BLAS_HERK || r->routine == BLAS_HER2K)
        return "NC";
    return r->type == 'c' || r->type == 'z' ? "NT" : "NTC";
}

/* Returns the number of the first wrong argument of syrk, herk, syr2k or her2k, counted from 1;
 * 0 if all are right. */
static int wrong_rank(const struct request *r)
{
    bool two = r->routine == BLAS_SYR2K || r->routine == BLAS_HER2K;

    if (!is_one_of(r->uplo, "UL") || !is_one_of(r->a.op, valid_ops(r)))
        return is_one_of(r->uplo, "UL") ? 2 : 1;
    if (r->n < 0 || r->k < 0)
        return r->n < 0 ? 3 : 4;
    return !has_valid_lead(r, &r->a, r->n, r->k)        ? 7 :
           two && !has_valid_lead(r, &r->b, r->n, r->k) ? 9 :
           !has_valid_lead(r, &r->c, r->n, r->n)        ? two ? 12 : 10 :
                                                          0;
}

/* Returns the number of trmm's or trsm's first wrong argument, counted from 1; 0 if all are
 * right. */
static int wrong_triangular(const struct request *r)
{
    int64_t order = r->side == 'L' ? r->m : r->n;

    if (!is_one_of(r->side, "LR") || !is_one_of(r->uplo, "UL"))
        return is_one_of(r->side, "LR") ? 2 : 1;
    if (!is_one_of(r->a.op, "NTC") || !is_one_of(r->diag, "NU"))
        return is_one_of(r->a.op, "NTC") ? 4 : 3;
    if (r->m < 0 || r->n < 0)
        return r->m < 0 ? 5 : 6;
    return !has_valid_lead(r, &r->a, order, order) ? 9 :
           !has_valid_lead(r, &r->b, r->m, r->n)   ? 11 :
                                                     0;
}

/* Returns 1 if some argument is wrong, 0 if all are valid.  A wrong call is forwarded to the other
 * LAPACK, which reports the position. */
static int wrong_lapack(const struct request *r)
{
    const bool applies = r->routine == LAPACK_ORMQR;
    const bool solves = r->routine == LAPACK_GETRS || r->routine == LAPACK_TRTRS;
    const int64_t rows = applies && r->side == 'R' ? r->n : r->m;
    bool wrong = r->m < 0 || r->n < 0 || r->k < 0 || r->a.lead < (rows > 1 ? rows : 1) ||
                 !is_one_of(r->a.op, solves                ? "NTC" :
                                     !applies              ? "N" :
                                     strchr("sd", r->type) ? "NT" :
                                                             "NC");

    wrong |= r->b.data && r->b.lead < (r->m > 1 ? r->m : 1);
    wrong |=
        applies && (!is_one_of(r->side, "LR") || r->c.lead < (r->m > 1 ? r->m : 1) || r->k > rows);
    wrong |= r->routine == LAPACK_ORGQR && (r->n > r->m || r->k > r->n);
    wrong |= (r->uplo && !is_one_of(r->uplo, "UL")) || (r->diag && !is_one_of(r->diag, "NU"));
    /* `work` is too small, or the program asks for its best size */
    wrong |=
        r->lapack.work && r->lapack.room < (r->lapack.least_room > 1 ? r->lapack.least_room : 1);
    return wrong;
}

/* Returns 1 if some argument is wrong, 0 if all are valid.  A wrong call is forwarded to the other
 * BLAS, which reports the position. */
static int wrong_vector(const struct request *r)
{
    const bool by_rows = r->order == BLAS_ROWS;
    const int64_t rows = by_rows ? r->n : r->m;
    const bool full = r->routine == BLAS_GEMV || r->routine == BLAS_SYMV ||
                      r->routine == BLAS_TRMV || r->routine == BLAS_TRSV,
               band = r->routine == BLAS_SBMV || r->routine == BLAS_TBMV || r->routine == BLAS_TBSV,
               updates =
                   r->routine == BLAS_GER || r->routine == BLAS_SYR || r->routine == BLAS_SYR2,
               triangle = r->routine >= BLAS_TRMV && r->routine <= BLAS_TPSV,
               transposes = r->routine == BLAS_GEMV || r->routine == BLAS_GBMV || triangle;
    bool wrong = r->m < 0 || r->n < 0 || r->k < 0 || r->below < 0 || r->above < 0;

    wrong |= full && r->a.lead < (rows > 1 ? rows : 1);
    wrong |= updates && r->c.lead < (rows > 1 ? rows : 1);
    wrong |= band && r->a.lead < r->k + 1;
    wrong |= r->routine == BLAS_GBMV && r->a.lead < r->below + r->above + 1;
    wrong |= transposes && !is_one_of(r->a.op, "NTC");
    wrong |= triangle && !is_one_of(r->diag, "NU");
    wrong |= (triangle || r->uplo) && !is_one_of(r->uplo, "UL");
    if (r->routine >= BLAS_GEMV) /* level 2 forbids increments of 0, level 1 allows them */
        wrong |= (r->b.data && r->routine < BLAS_TRMV && !r->b.lead) ||
                 (!updates && r->routine < BLAS_GER && !r->c.lead) ||
                 (r->routine >= BLAS_GER && (!r->a.lead || (r->b.data && !r->b.lead)));
    return wrong;
}

/* Returns the position of the routine's first wrong argument, 0 if all are valid, -1 if the order
 * is neither row- nor column-major. */
int limber_blas_first_bad_argument(const struct request *r)
{
    if (r->order != BLAS_ROWS && r->order != BLAS_COLUMNS)
        return -1;
    switch (r->routine) {
    case BLAS_GEMM:
    case BLAS_GEMM_BATCH: return wrong_gemm(r);
    case BLAS_GEMMT: return wrong_gemmt(r);
    case BLAS_SYMM:
    case BLAS_HEMM: return wrong_symm(r);
    case BLAS_TRMM:
    case BLAS_TRSM: return wrong_triangular(r);
    default:
        return limber_blas_is_lapack(r) ? wrong_lapack(r) :
               limber_blas_is_vector(r) ? wrong_vector(r) :
                                          wrong_rank(r);
    }
}

/* Reports a wrong argument to the program's cblas_xerbla or xerbla, or else on stderr. cblas_xerbla
 * counts positions from 1 with the order as the first. */
void limber_blas_report_wrong_argument(const struct request *r, int position)
{
    void (*of_c)(int64_t, const char *, const char *, ...) = NULL;
    void (*of_fortran)(const char *, const int64_t *, size_t);
    int64_t info = r->cblas ? position < 0 ? 1 : position + 1 : position;
    const char *plain = strstr(r->name, "cblas_");
    char name[32];
    size_t length = 0;

    if (r->cblas)
        *(void **)&of_c = dlsym(RTLD_DEFAULT, "cblas_xerbla");
    if (of_c) {
        of_c(info, r->name, "");
        return;
    }
    *(void **)&of_fortran =
        dlsym(RTLD_DEFAULT, r->wide && r->spelling.suffix[1] ? "xerbla_64_" : "xerbla_");
    if (!of_fortran)
        *(void **)&of_fortran = limber_blas_look_up_routine(r, "xerbla");
    for (const char *p = plain ? plain + 6 : r->name; *p && *p != '_' && length < sizeof name; p++)
        name[length++] = (char)toupper((unsigned char)*p);
    if (of_fortran)
        of_fortran(name, &info, length);
    else
        interpose_message("argument %d of %s is wrong", (int)info, r->name);
}
