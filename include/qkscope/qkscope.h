/* SPDX-License-Identifier: Apache-2.0 */
/* Everything in one include, from bytes on disk to tables:
 * parquet -> capture -> moments -> pca -> study. */
#ifndef QKSCOPE_QKSCOPE_H
#define QKSCOPE_QKSCOPE_H

#include <qkscope/analysis.h>
#include <qkscope/capture.h>
#include <qkscope/figure.h>
#include <qkscope/hub.h>
#include <qkscope/inspect.h>
#include <qkscope/model.h>
#include <qkscope/moments.h>
#include <qkscope/parquet.h>
#include <qkscope/pca.h>
#include <qkscope/plasticity.h>
#include <qkscope/published.h>
#include <qkscope/recorder.h>
#include <qkscope/report.h>
#include <qkscope/results.h>
#include <qkscope/rotation.h>
#include <qkscope/sampler.h>
#include <qkscope/scatter.h>
#include <qkscope/settings.h>
#include <qkscope/stages.h>
#include <qkscope/status.h>
#include <qkscope/study.h>
#include <qkscope/synth.h>
#include <qkscope/tokenizer.h>
#include <qkscope/version.h>

#endif
