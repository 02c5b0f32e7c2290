/* SPDX-License-Identifier: Apache-2.0 */
/* Leading eigenpairs of a symmetric matrix, by LAPACK's dsyevr. */
#include "stats/eigen.h"

#include <stdlib.h>
#include <string.h>

#include <lapacke.h>

#include "base/buffer.h"
#include "base/error.h"

qk_status qk__eigen_largest(double *matrix, size_t d, size_t count, double *values,
                            double *vectors, qk_error *err)
{
    lapack_int n = (lapack_int)d, first = n - (lapack_int)count + 1, found = 0;
    double *w = qk__calloc(d, sizeof(double)); /* ascending, as LAPACK has it */
    double *z = qk__calloc(d * count, sizeof(double));
    lapack_int *support = qk__calloc(2 * count, sizeof *support);
    qk_status status = QK_OK;
    if (!w || !z || !support) {
        status = qk__nomem(err);
        goto done;
    }
    lapack_int info = LAPACKE_dsyevr(LAPACK_COL_MAJOR, 'V', 'I', 'U', n, matrix, n, 0, 0, first,
                                     n, 0, &found, w, z, n, support);
    if (info == LAPACK_WORK_MEMORY_ERROR) {
        status = qk__nomem(err);
    } else if (info != 0 || found != (lapack_int)count) {
        status = qk__fail(err, QK_ERR_INCONSISTENT,
                          "the eigenvalues of the covariance did not converge (dsyevr: %d)",
                          (int)info);
    } else {
        for (size_t i = 0; i < count; i++) {
            values[i] = w[count - 1 - i];
            memcpy(vectors + i * d, z + (count - 1 - i) * d, d * sizeof(double));
        }
    }
done:
    free(w);
    free(z);
    free(support);
    return status;
}
