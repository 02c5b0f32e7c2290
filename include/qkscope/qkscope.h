/* SPDX-License-Identifier: Apache-2.0 */
/* The whole library in one include. What a program does with it:
 *
 *     qk_analysis_settings settings;
 *     qk_analysis_results *results = NULL;
 *     qk_columns *heads = NULL;
 *     qk_error err;
 *     qk_analysis_settings_default(&settings);
 *     settings.capture = "examples/kjv-tiny-capture";
 *     if (qk_analysis_run(&settings, &results, &err) != QK_OK ||
 *         qk_results_table(results, "heads.csv", &heads, &err) != QK_OK)
 *         fprintf(stderr, "%s\n", err.message);
 *     for (size_t i = 0; heads && i < qk_columns_num_rows(heads); i++)
 *         printf("%s\n", qk_columns_texts(heads, "category")[i]);
 *     qk_columns_free(&heads);
 *     qk_analysis_results_free(&results);
 *
 * The headers, in the order of the work. Each may be included alone.
 *
 *     common.h     status codes and errors, notices, progress, context, the version
 *     settings.h   settings by name, with types, ranges, defaults and help
 *     model.h      weights, forward pass, tokenizer of a language model
 *     recorder.h   from a model and texts to a capture: which heads, the run
 *     loss.h       how well a model predicts texts
 *     ablate.h     what it loses without a head
 *     sink.h       from vectors, whoever has them, to a capture: which positions, rows or moments
 *     parquet.h    the files of captures
 *     capture.h    captures: finding, reading, writing, inspecting
 *     hub.h        datasets and models of the Hub: the cache, fetching, looking
 *     stats.h      of one head in memory: moments, PCA, rotation model, plasticity
 *     analysis.h   from a capture to tables; from two, what RoPE does
 *     results.h    tables as columns, and what they mean
 *     attention.h  sums over rows of attention
 *     report.h     figures, the report, scatter collages
 *     compare.h    what changed from one model to another
 *     study.h      many models: tables, figures and one report
 *
 * What holds everywhere:
 * - A function that can fail returns a qk_status and fills a qk_error with one line that says what is
 *   wrong, where, and the remedy.
 * - What a function makes, the caller releases with the function that is named for it (..._free,
 *   ..._close), which takes the address of the handle and sets the handle to NULL; a NULL handle
 *   is fine. Texts and arrays inside belong to the handle.
 * - Settings are a struct and a function that fills in the defaults; then members are set.
 * - Nothing is printed, no state is shared: two threads may work on different handles at once.
 * - Results are the same bytes for any number of threads.
 * - libqkscope has all of it. libqkscope-core has what reads and computes (settings.h, model.h, parquet.h,
 *   stats.h, capture.h but for qk_inspect_capture, of hub.h the cache) and needs no library for figures, pages and files of settings.
 * - Memory is the C library's: a program that wants another allocator links it, as for any C
 *   program. What it hands in (rows, positions, texts) stays its own and is not copied. */
#ifndef QKSCOPE_QKSCOPE_H
#define QKSCOPE_QKSCOPE_H

#include <qkscope/ablate.h>
#include <qkscope/analysis.h>
#include <qkscope/attention.h>
#include <qkscope/capture.h>
#include <qkscope/common.h>
#include <qkscope/compare.h>
#include <qkscope/hub.h>
#include <qkscope/loss.h>
#include <qkscope/model.h>
#include <qkscope/parquet.h>
#include <qkscope/recorder.h>
#include <qkscope/report.h>
#include <qkscope/results.h>
#include <qkscope/settings.h>
#include <qkscope/sink.h>
#include <qkscope/stats.h>
#include <qkscope/study.h>

#endif
