/* SPDX-License-Identifier: Apache-2.0 */
/* A condition becomes a list of steps, operands before what joins them, which a head walks with
 * a small stack. So a long chain of "or" needs no deep recursion. */
#include "results/head_filter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/parse_number.h"
#include "base/spelling.h"
#include "results/grow.h"

enum {
    MAX_TEXT = 1 << 16,
    MAX_DEPTH = 64,                /* of parentheses and "not" */
    MAX_STACK = 2 * MAX_DEPTH + 4, /* at each depth one "or" and one "and" may wait */
};

typedef enum operation {
    EQUAL,
    UNEQUAL,
    LESS,
    LESS_EQUAL,
    MORE,
    MORE_EQUAL,
    AND,
    OR,
    NOT
} operation;

static const char *const OPERATORS[] = {"==", "!=", "<", "<=", ">", ">="};

typedef struct step {
    operation operation;
    qk__head_value left, right; /* of comparisons */
} step;

struct qk__head_filter {
    step *steps;
    size_t count, capacity;
    qk__arena arena; /* of texts */
};

typedef struct token {
    enum { END, WORD, QUOTED, OPERATOR, OPEN, CLOSE } kind;
    const char *at, *text; /* text: of words, without quotes */
    operation operation;
} token;

typedef struct parser {
    const char *start, *next;
    token token; /* that is looked at */
    qk__head_filter *filter;
    size_t height; /* of the stack, as far as steps are made */
    qk_error *err;
} parser;

/* ---- words ------------------------------------------------------------------------------ */

/* Puts the place before the message that err has. */
static qk_status name_place(const parser *p, const char *at)
{
    size_t character = 1;
    for (const char *c = p->start; c < at; c++)
        character += ((unsigned char)*c & 0xC0) != 0x80;
    return qk__context(p->err, QK_ERR_ARGUMENT, "character %zu", character);
}

#define FAIL_AT(p, at, ...)                                                                    \
    (qk__set_error((p)->err, QK_ERR_ARGUMENT, __VA_ARGS__), name_place((p), (at)))

/* Names of models have these, too. */
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (unsigned char)c >= 0x80 || (c && strchr("_-+./:@", c));
}

static qk_status keep_text(parser *p, const char *text, size_t length)
{
    char *copy = qk__arena_alloc(&p->filter->arena, length + 1, 1);
    if (!copy)
        return qk__nomem(p->err);
    memcpy(copy, text, length);
    p->token.text = copy;
    return QK_OK;
}

static qk_status read_quoted(parser *p)
{
    const char *end = strchr(p->next + 1, *p->next);
    if (!end)
        return FAIL_AT(p, p->next, "this quote is never closed");
    p->token.kind = QUOTED;
    QK_TRY(keep_text(p, p->next + 1, (size_t)(end - p->next - 1)));
    p->next = end + 1;
    return QK_OK;
}

static qk_status read_operator(parser *p)
{
    int found = -1;
    for (int i = EQUAL; i <= MORE_EQUAL; i++) /* the longest: "<=" and not "<" */
        if (strncmp(p->next, OPERATORS[i], strlen(OPERATORS[i])) == 0 &&
            (found < 0 || strlen(OPERATORS[i]) > strlen(OPERATORS[found])))
            found = i;
    if (found < 0 && strchr("=&|!", *p->next))
        return FAIL_AT(p, p->next, "'%c' alone says nothing: there are %s", *p->next,
                       "==, !=, <, <=, >, >=, and, or, not");
    if (found < 0)
        return FAIL_AT(p, p->next, "'%c' has no meaning here; a text with it stands in quotes",
                       *p->next);
    p->token.kind = OPERATOR;
    p->token.operation = (operation)found;
    p->next += strlen(OPERATORS[found]);
    return QK_OK;
}

static qk_status read_token(parser *p)
{
    p->next += strspn(p->next, " \t\r\n");
    p->token = (token){.at = p->next};
    if (*p->next == 0)
        return QK_OK;
    if (*p->next == '(' || *p->next == ')') {
        p->token.kind = *p->next++ == '(' ? OPEN : CLOSE;
        return QK_OK;
    }
    if (*p->next == '"' || *p->next == '\'')
        return read_quoted(p);
    if (!is_word(*p->next))
        return read_operator(p);
    while (is_word(*p->next))
        p->next++;
    p->token.kind = WORD;
    return keep_text(p, p->token.at, (size_t)(p->next - p->token.at));
}

static bool is_keyword(const parser *p, const char *word)
{
    return p->token.kind == WORD && strcasecmp(p->token.text, word) == 0;
}

/* ---- values ----------------------------------------------------------------------------- */

static qk_status read_column(parser *p, qk__head_column *column)
{
    if (p->token.kind != WORD)
        return FAIL_AT(p, p->token.at, "expected the name of a column");
    if (qk__find_head_column(p->token.text, column, p->err) != QK_OK)
        return name_place(p, p->token.at);
    return read_token(p);
}

/* What follows "abs". */
static qk_status read_magnitude(parser *p, qk__head_value *value)
{
    QK_TRY(read_token(p));
    if (p->token.kind != OPEN)
        return FAIL_AT(p, p->token.at, "expected '(' behind abs");
    QK_TRY(read_token(p));
    const char *at = p->token.at;
    value->is_column = value->magnitude = true;
    QK_TRY(read_column(p, &value->column));
    if (qk__is_head_text(&value->column))
        return FAIL_AT(p, at, "%s is a text, and has no abs", value->column.name);
    if (p->token.kind != CLOSE)
        return FAIL_AT(p, p->token.at, "expected ')' behind abs(%s", value->column.name);
    return read_token(p);
}

static qk_status read_value(parser *p, qk__head_value *value)
{
    *value = (qk__head_value){.number = NAN};
    if (p->token.kind != WORD && p->token.kind != QUOTED)
        return FAIL_AT(p, p->token.at, "expected a column, a number or a text");
    if (is_keyword(p, "and") || is_keyword(p, "or") || is_keyword(p, "not"))
        return FAIL_AT(p, p->token.at, "expected a column, a number or a text, found '%s'",
                       p->token.text);
    if (is_keyword(p, "abs"))
        return read_magnitude(p, value);
    value->text = p->token.text;
    if (p->token.kind == WORD && !qk__parse_number(value->text, &value->number)) {
        value->number = NAN;
        value->is_column = qk__find_head_column(value->text, &value->column, NULL) == QK_OK;
    }
    return read_token(p);
}

qk_status qk__parse_head_value(const char *text, qk__head_value *value, qk_error *err)
{
    qk__head_filter filter = {0};
    parser p = {.start = text, .next = text, .filter = &filter, .err = err};
    *value = (qk__head_value){.is_column = true};
    qk_status status = read_token(&p);
    if (status == QK_OK)
        status =
            is_keyword(&p, "abs") ? read_magnitude(&p, value) : read_column(&p, &value->column);
    if (status == QK_OK && p.token.kind != END)
        status = FAIL_AT(&p, p.token.at, "expected one column");
    qk__arena_free(&filter.arena);
    return status;
}

double qk__head_value_number(const qk__head_value *value, const qk__head_row *row)
{
    double number = value->is_column ? qk__head_number(&value->column, row) : value->number;
    return value->magnitude ? fabs(number) : number;
}

const char *qk__head_value_text(const qk__head_value *value, const qk__head_row *row)
{
    return value->is_column ? qk__head_word(&value->column, row) : value->text;
}

/* ---- comparisons ------------------------------------------------------------------------ */

/* A misspelt category would select no head, silently. */
static qk_status check_category(const parser *p, const char *at, const char *word)
{
    const char *names[QK_NUM_CATEGORIES + 1] = {NULL};
    for (int i = 0; i < QK_NUM_CATEGORIES; i++) {
        names[i] = qk_category_name((qk_category)i);
        if (strcmp(word, names[i]) == 0)
            return QK_OK;
    }
    const char *meant = qk_nearest_word(word, names);
    if (meant)
        return FAIL_AT(p, at, "there is no category '%.100s' (did you mean %s?)", word, meant);
    return FAIL_AT(p, at, "there is no category '%.100s'; there are %s, %s, %s, %s, %s", word,
                   names[0], names[1], names[2], names[3], names[4]);
}

/* Of the value that stands opposite the column. */
static qk_status check_against(const parser *p, const qk__head_column *column,
                               const qk__head_value *value, const char *at)
{
    bool is_text = qk__is_head_text(column);
    if (value->is_column && is_text == qk__is_head_text(&value->column))
        return QK_OK;
    if (value->is_column)
        return FAIL_AT(p, at, "%s is a %s and %s a %s", column->name,
                       is_text ? "text" : "number", value->column.name,
                       is_text ? "number" : "text");
    if (is_text)
        return column->kind == QK__HEAD_CATEGORY ? check_category(p, at, value->text) : QK_OK;
    if (!isnan(value->number))
        return QK_OK;
    return FAIL_AT(p, at, "%s is a number, but '%.100s' is neither a number nor a column",
                   column->name, value->text);
}

static qk_status check_comparison(const parser *p, const step *s, const char *left,
                                  const char *right)
{
    const qk__head_value *column = s->left.is_column ? &s->left : &s->right;
    qk__head_column none;
    if (!column->is_column && isnan(s->left.number) &&
        qk__find_head_column(s->left.text, &none, p->err) != QK_OK)
        return name_place(p, left);
    if (!column->is_column)
        return FAIL_AT(p, left, "one side of a comparison is a column");
    QK_TRY(check_against(p, &column->column, column == &s->left ? &s->right : &s->left,
                         column == &s->left ? right : left));
    if (qk__is_head_text(&column->column) && s->operation > UNEQUAL)
        return FAIL_AT(p, left,
                       "%s is a text: it is compared by == and !=", column->column.name);
    return QK_OK;
}

static qk_status add_step(parser *p, const step *s)
{
    qk__head_filter *f = p->filter;
    if (f->count == f->capacity) {
        step *steps = qk__grow(f->steps, &f->capacity, sizeof *steps);
        if (!steps)
            return qk__nomem(p->err);
        f->steps = steps;
    }
    f->steps[f->count++] = *s;
    p->height += s->operation <= MORE_EQUAL ? 1 : 0;
    p->height -= s->operation == AND || s->operation == OR ? 1 : 0;
    return p->height <= MAX_STACK
               ? QK_OK
               : FAIL_AT(p, p->token.at, "more than %d conditions inside each other",
                         MAX_DEPTH);
}

static qk_status read_comparison(parser *p)
{
    step s;
    const char *left = p->token.at;
    QK_TRY(read_value(p, &s.left));
    if (p->token.kind != OPERATOR)
        return FAIL_AT(p, p->token.at, "expected ==, !=, <, <=, > or >=");
    s.operation = p->token.operation;
    QK_TRY(read_token(p));
    const char *right = p->token.at;
    QK_TRY(read_value(p, &s.right));
    QK_TRY(check_comparison(p, &s, left, right));
    return add_step(p, &s);
}

/* ---- conditions ------------------------------------------------------------------------- */

static qk_status read_chain(parser *p, operation joined_by, int depth);

static qk_status read_term(parser *p, int depth)
{
    bool negated = is_keyword(p, "not");
    if (!negated && p->token.kind != OPEN)
        return read_comparison(p);
    if (depth == MAX_DEPTH)
        return FAIL_AT(p, p->token.at, "more than %d conditions inside each other", MAX_DEPTH);
    QK_TRY(read_token(p));
    if (negated) {
        QK_TRY(read_term(p, depth + 1));
        return add_step(p, &(step){.operation = NOT});
    }
    QK_TRY(read_chain(p, OR, depth + 1));
    if (p->token.kind != CLOSE)
        return FAIL_AT(p, p->token.at, "expected ')', and or or");
    return read_token(p);
}

/* Terms joined by "and", which binds more strongly, or such chains joined by "or". */
static qk_status read_chain(parser *p, operation joined_by, int depth)
{
    const char *word = joined_by == AND ? "and" : "or";
    for (bool first = true; first || is_keyword(p, word); first = false) {
        if (!first)
            QK_TRY(read_token(p));
        QK_TRY(joined_by == AND ? read_term(p, depth) : read_chain(p, AND, depth));
        if (!first)
            QK_TRY(add_step(p, &(step){.operation = joined_by}));
    }
    return QK_OK;
}

qk_status qk__parse_head_filter(qk__head_filter **filter, const char *text, qk_error *err)
{
    *filter = NULL;
    if (strnlen(text, MAX_TEXT + 1) > MAX_TEXT)
        return qk__fail(err, QK_ERR_ARGUMENT, "more than %d bytes", MAX_TEXT);
    *filter = calloc(1, sizeof **filter);
    if (!*filter)
        return qk__nomem(err);
    parser p = {.start = text, .next = text, .filter = *filter, .err = err};
    qk_status status = read_token(&p);
    if (status == QK_OK)
        status = read_chain(&p, OR, 0);
    if (status == QK_OK && p.token.kind != END)
        status = FAIL_AT(&p, p.token.at, "expected and, or, or the end");
    if (status != QK_OK)
        qk__head_filter_free(filter);
    return status;
}

const qk__head_column *qk__filter_column(const qk__head_filter *filter, size_t i)
{
    for (const step *s = filter->steps; s && s < filter->steps + filter->count; s++) {
        if (s->left.is_column && i-- == 0)
            return &s->left.column;
        if (s->right.is_column && i-- == 0)
            return &s->right.column;
    }
    return NULL;
}

void qk__head_filter_free(qk__head_filter **filter)
{
    if (!*filter)
        return;
    qk__arena_free(&(*filter)->arena);
    free((*filter)->steps);
    free(*filter);
    *filter = NULL;
}

/* ---- heads ------------------------------------------------------------------------------ */

/* order: below 0, 0 or above, as the left value is smaller, the same or larger. */
static bool is_true(operation asked, int order)
{
    if (asked == EQUAL || asked == UNEQUAL)
        return (order == 0) == (asked == EQUAL);
    if (order == 0)
        return asked == LESS_EQUAL || asked == MORE_EQUAL;
    return (order < 0) == (asked == LESS || asked == LESS_EQUAL);
}

static bool compare_values(const step *s, const qk__head_row *row)
{
    const qk__head_value *column = s->left.is_column ? &s->left : &s->right;
    if (qk__is_head_text(&column->column)) {
        const char *a = qk__head_value_text(&s->left, row);
        const char *b = qk__head_value_text(&s->right, row);
        return *a && *b && is_true(s->operation, strcmp(a, b));
    }
    double a = qk__head_value_number(&s->left, row);
    double b = qk__head_value_number(&s->right, row);
    return !isnan(a) && !isnan(b) && is_true(s->operation, (a > b) - (a < b));
}

bool qk__filter_keeps_head(const qk__head_filter *filter, const qk__head_row *row)
{
    bool stack[MAX_STACK + 1] = {false};
    size_t height = 0;
    for (size_t i = 0; i < filter->count; i++) {
        const step *s = &filter->steps[i];
        if (s->operation == NOT) {
            stack[height - 1] = !stack[height - 1];
        } else if (s->operation == AND || s->operation == OR) {
            bool last = stack[--height];
            stack[height - 1] =
                s->operation == AND ? stack[height - 1] && last : stack[height - 1] || last;
        } else {
            stack[height++] = compare_values(s, row);
        }
    }
    return stack[0];
}
