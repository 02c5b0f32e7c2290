/* SPDX-License-Identifier: Apache-2.0 */
/* The libraries are made of the rooms; this file only gives the linker something of its own,
 * and compiles every public header once. */
#include <qkscope/qkscope.h>
