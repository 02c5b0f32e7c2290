/* SPDX-License-Identifier: Apache-2.0 */
/* Leading eigenpairs of a symmetric matrix, by LAPACK.
 *
 * dsyevr does this in one call, but finds a partial spectrum by bisection and inverse
 * iteration; its own parts with dstemr (multiple relatively robust representations) in the
 * middle take two thirds of the time at d = 128. */
#include "stats/eigen.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cblas.h>
#include <lapacke.h>

#include "base/buffer.h"
#include "base/error.h"

typedef struct workspace {
    double *diagonal, *off_diagonal, *reflectors; /* of the tridiagonal form */
    double *w, *z;                                /* ascending, as LAPACK has it */
    lapack_int *support;
} workspace;

/* OpenBLAS built without threads hands out its work buffers without a lock (Debian's serial
 * 0.3.21: of 400,000 solves at d = 64 on four threads 12 came out wrong, of as many with its
 * threaded build none; see docs/architecture.md). So one solve at a time, unless a threaded
 * build is told to use one thread. The lock guards the BLAS, not a state of ours. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static bool blas_is_reentrant(void)
{
    return openblas_get_parallel() != OPENBLAS_SEQUENTIAL && openblas_get_num_threads() == 1;
}

static lapack_int solve(double *matrix, lapack_int n, lapack_int count, workspace *s)
{
    lapack_int found = 0;
    lapack_logical try_high_accuracy = 1;
    lapack_int info = LAPACKE_dsytrd(LAPACK_COL_MAJOR, 'U', n, matrix, n, s->diagonal,
                                     s->off_diagonal, s->reflectors);
    if (info == 0)
        info = LAPACKE_dstemr(LAPACK_COL_MAJOR, 'V', 'I', n, s->diagonal, s->off_diagonal, 0, 0,
                              n - count + 1, n, &found, s->w, s->z, n, count, s->support,
                              &try_high_accuracy);
    if (info == 0 && found == count)
        info = LAPACKE_dormtr(LAPACK_COL_MAJOR, 'L', 'U', 'N', n, count, matrix, n,
                              s->reflectors, s->z, n);
    return info == 0 && found != count ? n + 1 : info;
}

qk_status qk__eigen_largest(double *matrix, size_t d, size_t count, double *values,
                            double *vectors, qk_error *err)
{
    workspace s = {
        .diagonal = qk__calloc(d, sizeof(double)),
        .off_diagonal = qk__calloc(d, sizeof(double)),
        .reflectors = qk__calloc(d, sizeof(double)),
        .w = qk__calloc(d, sizeof(double)),
        .z = qk__calloc(d * count, sizeof(double)),
        .support = qk__calloc(2 * d, sizeof *s.support),
    };
    qk_status status = QK_OK;
    if (!s.diagonal || !s.off_diagonal || !s.reflectors || !s.w || !s.z || !s.support) {
        status = qk__nomem(err);
        goto done;
    }
    bool lock = !blas_is_reentrant();
    if (lock)
        pthread_mutex_lock(&one_at_a_time);
    lapack_int info = solve(matrix, (lapack_int)d, (lapack_int)count, &s);
    if (lock)
        pthread_mutex_unlock(&one_at_a_time);
    if (info == LAPACK_WORK_MEMORY_ERROR) {
        status = qk__nomem(err);
    } else if (info != 0) {
        status = qk__fail(err, QK_ERR_INCONSISTENT,
                          "the eigenvalues of the covariance did not converge (LAPACK: %d)",
                          (int)info);
    } else {
        for (size_t i = 0; i < count; i++) {
            values[i] = s.w[count - 1 - i];
            memcpy(vectors + i * d, s.z + (count - 1 - i) * d, d * sizeof(double));
        }
    }
done:
    free(s.diagonal);
    free(s.off_diagonal);
    free(s.reflectors);
    free(s.w);
    free(s.z);
    free(s.support);
    return status;
}
