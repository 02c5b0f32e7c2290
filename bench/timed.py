# SPDX-License-Identifier: Apache-2.0
"""Seconds, peak memory and output of a command, through the program of timed.c."""
import json
import subprocess


def measured(build, command, check=True):
    """{seconds, processor_seconds, peak_mib} and standard output; raises when the command fails, unless
    check is off."""
    run = subprocess.run([build / "bench" / "timed", *map(str, command)], check=check,
                         stdout=subprocess.PIPE, text=True)
    printed, _, last = run.stdout.rstrip("\n").rpartition("\n")
    return json.loads(last), printed


def timed(build, command, check=True):
    """(seconds, peak MiB, standard output)"""
    figures, printed = measured(build, command, check)
    return figures["seconds"], figures["peak_mib"], printed
