# SPDX-License-Identifier: Apache-2.0
"""Captures on disk: read their rows, look into them, write them."""
