# SPDX-License-Identifier: Apache-2.0
"""Branches of the engine, heads that are changed, beside whole forwards of transformers whose attention is changed, for every
saved architecture and the bundled model. hf_branches.py makes what is read here."""
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from hf_environment import hf_run, once
from test_hf_losses import MODELS

sys.path.append(str(ROOT / "tests" / "prefill"))
from prefill_runs import start, text  # noqa: E402
from test_losses import read_losses  # noqa: E402

pytestmark = pytest.mark.test_all


def tokens_of(model):
    config = json.loads((model / "config.json").read_text())
    return text(75, min((config.get("text_config") or config)["vocab_size"], 90), 9).tolist()


@pytest.fixture(scope="session")
def of_transformers(tmp_path_factory):
    def make(folder):
        (folder / "tokens.json").write_text(json.dumps({str(model): tokens_of(model) for model in MODELS}))
        hf_run(Path(__file__).with_name("hf_branches.py"), folder, *MODELS)
    return once(tmp_path_factory, "hf_branches", make)


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.name)
def test_every_change(of_transformers, model, tmp_path):
    folder = of_transformers / str(MODELS.index(model))
    rows = json.loads((folder / "losses.json").read_text())
    options = [f"loss={tmp_path / 'loss'}", f"branches={folder / 'branches.txt'}", "none"]
    run, _ = start(model, [tokens_of(model)], tmp_path, *options)
    assert run.returncode == 0, run.stderr
    changed, off, unmoved = {}, [], []
    clean = read_losses(tmp_path / "loss", changed)[0]
    assert len(rows) == 1 + len(changed) >= 26
    np.testing.assert_allclose(clean, rows[0][0], atol=1e-4)
    for i, (losses, drifts, name) in enumerate(rows[1:]):
        first, found, drift = changed[i]
        assert len(found) == len(losses)
        np.testing.assert_allclose(found, losses, atol=6e-5, err_msg=name)
        np.testing.assert_allclose(drift, drifts, atol=6e-5, err_msg=name)
        off.append(abs(found.astype(float).mean() / np.mean(losses) - 1))
        if np.abs(np.array(losses) - rows[0][0][first:]).max() < 1e-6:
            unmoved.append(name)
    print(f"{len(off)} branches, mean off by {np.mean(off):.2e}, at most {max(off):.2e}; unmoved: {unmoved}")
    assert max(off) < 2e-6
    assert len(unmoved) < len(off) / 4, unmoved
