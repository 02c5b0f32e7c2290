/* SPDX-License-Identifier: Apache-2.0 */
/* Merging the symbols of a word, in n log n steps: a heap of the pairs that can merge, over a
 * linked list of symbols. Short words are searched for their best pair instead, which is
 * faster. */
#include "tokenizer/bpe_merge.h"

#include "base/buffer.h"
#include "base/error.h"

enum { SHORT_WORD = 16 };

/* ---- the heap --------------------------------------------------------------------------- */

static void sift_up(qk__candidate *heap, size_t i)
{
    qk__candidate moved = heap[i];
    while (i > 0) {
        size_t parent = (i - 1) / 4;
        if (heap[parent].order <= moved.order)
            break;
        heap[i] = heap[parent];
        i = parent;
    }
    heap[i] = moved;
}

static void sift_down(qk__candidate *heap, size_t count, size_t i)
{
    qk__candidate moved = heap[i];
    for (;;) {
        size_t child = 4 * i + 1, best = child;
        if (child >= count)
            break;
        size_t end = child + 4 < count ? child + 4 : count;
        for (size_t j = child + 1; j < end; j++)
            if (heap[j].order < heap[best].order)
                best = j;
        if (moved.order <= heap[best].order)
            break;
        heap[i] = heap[best];
        i = best;
    }
    heap[i] = moved;
}

static qk_status append(qk__merger *m, uint32_t place, const qk__merge *merge, qk_error *err)
{
    if (m->heap_count == m->heap_capacity) {
        qk__candidate *heap = qk__grow(m->heap, &m->heap_capacity, sizeof *heap);
        if (!heap)
            return qk__nomem(err);
        m->heap = heap;
    }
    m->heap[m->heap_count++] = (qk__candidate){(uint64_t)merge->rank << 32 | place, merge->id};
    return QK_OK;
}

static qk_status push_pair(const qk__bpe *bpe, qk__merger *m, uint32_t left, uint32_t right,
                           qk_error *err)
{
    const qk__merge *merge = qk__bpe_merge(bpe, m->symbols[left].id, m->symbols[right].id);
    if (!merge)
        return QK_OK;
    QK_TRY(append(m, left, merge, err));
    sift_up(m->heap, m->heap_count - 1);
    return QK_OK;
}

static qk__candidate pop(qk__merger *m)
{
    qk__candidate top = m->heap[0];
    m->heap[0] = m->heap[--m->heap_count];
    if (m->heap_count > 0)
        sift_down(m->heap, m->heap_count, 0);
    return top;
}

/* ---- merging ---------------------------------------------------------------------------- */

static qk_status merge_long(const qk__bpe *bpe, qk__merger *m, qk_error *err)
{
    qk__symbol *symbols = m->symbols;
    m->heap_count = 0;
    for (uint32_t i = 0; i + 1 < m->count; i++) {
        const qk__merge *merge = qk__bpe_merge(bpe, symbols[i].id, symbols[i + 1].id);
        if (merge)
            QK_TRY(append(m, i, merge, err));
    }
    for (size_t i = m->heap_count / 4 + 1; i-- > 0;)
        if (i < m->heap_count)
            sift_down(m->heap, m->heap_count, i);
    while (m->heap_count > 0) {
        qk__candidate top = pop(m);
        uint32_t place = (uint32_t)top.order;
        qk__symbol *left = &symbols[place];
        if (left->id < 0 || left->next == QK__NO_SYMBOL)
            continue;
        qk__symbol *right = &symbols[left->next];
        const qk__merge *merge = qk__bpe_merge(bpe, left->id, right->id);
        if (!merge || merge->id != top.id)
            continue; /* one of the two has merged otherwise */
        left->id = top.id;
        left->next = right->next;
        right->id = -1;
        if (left->next != QK__NO_SYMBOL) {
            symbols[left->next].previous = place;
            QK_TRY(push_pair(bpe, m, place, left->next, err));
        }
        if (left->previous != QK__NO_SYMBOL)
            QK_TRY(push_pair(bpe, m, left->previous, place, err));
    }
    return QK_OK;
}

static void merge_short(const qk__bpe *bpe, qk__merger *m)
{
    qk__symbol *symbols = m->symbols;
    const qk__merge *merges[SHORT_WORD]; /* of symbol i and the one after it */
    size_t count = m->count;
    for (size_t i = 0; i + 1 < count; i++)
        merges[i] = qk__bpe_merge(bpe, symbols[i].id, symbols[i + 1].id);
    for (;;) {
        size_t best = count;
        for (size_t i = 0; i + 1 < count; i++)
            if (merges[i] && (best == count || merges[i]->rank < merges[best]->rank))
                best = i;
        if (best == count)
            break;
        symbols[best].id = merges[best]->id;
        count--;
        for (size_t i = best + 1; i < count; i++) {
            symbols[i].id = symbols[i + 1].id;
            merges[i - 1] = merges[i];
        }
        if (best + 1 < count)
            merges[best] = qk__bpe_merge(bpe, symbols[best].id, symbols[best + 1].id);
        if (best > 0)
            merges[best - 1] = qk__bpe_merge(bpe, symbols[best - 1].id, symbols[best].id);
    }
    m->count = count;
}

qk_status qk__bpe_merge_all(const qk__bpe *bpe, qk__merger *merger, qk_error *err)
{
    if (merger->count > SHORT_WORD)
        return merge_long(bpe, merger, err);
    merge_short(bpe, merger);
    return QK_OK;
}
