# SPDX-License-Identifier: Apache-2.0
"""Executes notebooks, by this interpreter or by another one that has more packages.

    import notebooks
    made = notebooks.execute(NOTEBOOKS / "results.ipynb", tmp_path)
    made = notebooks.execute(NOTEBOOKS / "transformers.ipynb", tmp_path, python="/path/to/bin/python")

Each skips the test where nbclient, the interpreter's ipykernel, or a package that `needs` names is not installed. A
cell that fails, fails the test with its traceback.

Notebooks are kept with what they print. Run by itself, this file writes that anew: notebooks.py [PYTHON], the one with
torch, for transformers.ipynb."""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from conftest import BUILD, ROOT

NOTEBOOKS = ROOT / "examples" / "notebooks"
KERNEL = "qkscope-tests"


def read(path):
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def skip_without(python, modules):
    """Looks for modules where the kernel will run."""
    find = "import importlib.util, sys; print(*[m for m in sys.argv[1:] if importlib.util.find_spec(m) is None])"
    done = subprocess.run([python, "-c", find, *modules], capture_output=True, text=True, timeout=300)
    missing = done.stdout.split() if done.returncode == 0 else [f"an interpreter ({python})"]
    if missing:
        pytest.skip(f"the notebook needs {', '.join(missing)}, not installed for {python}")


def kernels(python, folder, environment):
    """A folder with the one kernel: that interpreter, with this build's package; what it keeps stays in `folder`."""
    place = folder / "kernels" / KERNEL
    place.mkdir(parents=True)
    private = {name: str(folder / name.lower()) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR")}
    place.joinpath("kernel.json").write_text(json.dumps({
        "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": KERNEL, "language": "python",
        "env": {"PYTHONPATH": str(BUILD / "python"), **private, **(environment or {})}}))
    return place.parent


def execute(path, folder, *, python=sys.executable, needs=(), environment=None, timeout=600):
    """The notebook with its outputs; the file is not changed. It runs where it lies, so that its relative paths hold.
    `folder` is for files of the kernel, `environment` is added to the kernel's, `timeout` is of each cell."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from jupyter_client.utils import run_sync
    skip_without(python, ["ipykernel", *needs])
    notebook = read(path)
    specs = KernelSpecManager(kernel_dirs=[str(kernels(python, folder, environment))])
    with tempfile.TemporaryDirectory(prefix="k") as short:  # sockets' names have 107 characters at most
        manager = AsyncKernelManager(kernel_name=KERNEL, kernel_spec_manager=specs, transport="ipc", ip=f"{short}/k",
                                     connection_file=str(folder / "connection.json"))
        try:
            return nbclient.NotebookClient(notebook, km=manager, kernel_name=KERNEL, timeout=timeout,
                                           resources={"metadata": {"path": str(path.parent)}}).execute()
        finally:
            run_sync(manager.shutdown_kernel)(now=True)


def outputs(notebook):
    """{MIME type: [content, in the order of the cells]} of everything that was shown."""
    shown = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            for kind, content in output.get("data", {}).items():
                shown.setdefault(kind, []).append(content)
    return shown


def told(cell):
    """What a cell prints, as far as it is the same on each machine: kinds, and texts without seconds, folders, addresses
    and bytes of a capture, which tells versions. Numbers of few digits: the last ones are of the processor."""
    def plain(text):
        text = re.sub(r"\d+\.\d+ s\b|seconds=[\d.]+|bytes=\d+|0x[0-9a-f]+|/\S*/(?=capture)", "", text)
        return re.sub(r"(\.\d{3})\d+", r"\1", text)
    return [(output.output_type, sorted(output.get("data", {})), plain(output.get("data", {}).get("text/plain", "")))
            for output in cell.get("outputs", []) if output.output_type != "stream"]


def store(path, **how):
    """Writes the notebook with its outputs, without what is of this run alone: bars, times, folders."""
    nbformat = pytest.importorskip("nbformat")
    with tempfile.TemporaryDirectory() as folder:
        made = execute(path, Path(folder), **how)
        made.metadata.pop("widgets", None)
        for cell in made.cells:
            cell.metadata.pop("execution", None)
            if cell.cell_type == "code":
                cell.outputs = [output for output in cell.outputs if output.output_type != "stream"]
        text = re.sub(r"/tmp/tmp\w+", "/tmp", nbformat.writes(made))
    path.write_text(text.rstrip("\n") + "\n")


def errors(notebook):
    """What stays of stderr when bars of progress are gone: a notebook that is an example warns of nothing."""
    said = "".join(output.text for cell in notebook.cells for output in cell.get("outputs", [])
                   if output.output_type == "stream" and output.name == "stderr")
    return "\n".join(line.rpartition("\r")[2] for line in said.split("\n"))


if __name__ == "__main__":
    quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    store(NOTEBOOKS / "results.ipynb", environment=quiet)
    if len(sys.argv) > 1:
        store(NOTEBOOKS / "transformers.ipynb", python=Path(os.path.abspath(sys.argv[1])), environment=quiet)
