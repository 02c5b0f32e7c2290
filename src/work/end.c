/* SPDX-License-Identifier: Apache-2.0 */
/* Who puts all units together, where several processes see that they are there: the one that is the first to
 * say so, by a unit of its own. Where it has died, the first to say so with the next number: nothing is
 * removed, which might be another's new word. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "work/units.h"

static qk_status write_owner(void *self, const char *folder, qk_error *err)
{
    return qk__write_file_in(folder, "owner", self, strlen(self), err);
}

/* Says that this process does it under a number, unless another has said so; who it is. */
static qk_status claim(const qk__unit_folder *units, int number, char *self, qk__buffer *owner,
                       qk_error *err)
{
    char unit[32];
    snprintf(unit, sizeof unit, "end-%d", number);
    QK_TRY(qk__unit_put(units, unit, write_owner, self, err));
    char *place = qk__units_path(units, unit, "owner");
    qk_status status =
        place ? qk__read_file(place, QK__OWNER_SIZE, owner, err) : qk__nomem(err);
    free(place);
    return status;
}

qk_status qk__end_claim(const qk__unit_folder *units, bool forced, bool *mine, qk_error *err)
{
    char self[QK__OWNER_SIZE];
    qk__life life = QK__LIFE_GONE;
    qk__owner_self(self);
    *mine = false;
    for (int n = 0; !*mine && (life == QK__LIFE_GONE || (forced && life != QK__LIFE_ALIVE));
         n++) {
        qk__buffer owner = {0};
        QK_TRY(claim(units, n, self, &owner, err));
        *mine = strcmp((char *)owner.data, self) == 0;
        life = qk__owner_life((char *)owner.data);
        qk__buffer_free(&owner);
    }
    return QK_OK;
}
