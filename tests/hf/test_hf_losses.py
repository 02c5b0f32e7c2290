# SPDX-License-Identifier: Apache-2.0
"""Losses of tokens are those of transformers, for every saved architecture and the bundled model. hf_losses.py makes what
is read here."""
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from hf_environment import hf_run, once

sys.path.append(str(ROOT / "tests" / "prefill"))
from prefill_runs import start, text  # noqa: E402
from test_losses import read_losses  # noqa: E402

pytestmark = pytest.mark.test_all

SAVED = ROOT / "tests" / "data" / "saved"
MODELS = [*(path for path in sorted(SAVED.iterdir()) if path.is_dir() and path.suffix != ".golden"),
          *(ROOT / "examples" / "kjv-tiny" / f"step-{step}" for step in (20, 2004))]


def sequences(model):
    config = json.loads((model / "config.json").read_text())
    vocab = (config.get("text_config") or config)["vocab_size"]
    return [text(n, min(vocab, 90), n).tolist() for n in (2, 33, 150)]


@pytest.fixture(scope="session")
def of_transformers(tmp_path_factory):
    def make(folder):
        (folder / "tokens.json").write_text(json.dumps({str(model): sequences(model) for model in MODELS}))
        hf_run(Path(__file__).with_name("hf_losses.py"), folder, *MODELS)
    return json.loads((once(tmp_path_factory, "hf_losses", make) / "losses.json").read_text())


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.name)
def test_every_token(of_transformers, model, tmp_path):
    run, _ = start(model, sequences(model), tmp_path, f"loss={tmp_path / 'loss'}", "none")
    assert run.returncode == 0, run.stderr
    found = read_losses(tmp_path / "loss")
    wanted = of_transformers[str(model)]
    assert list(found) == list(range(len(wanted)))
    for s, values in enumerate(wanted):
        np.testing.assert_allclose(found[s], values, atol=1e-4)
        assert found[s].astype(float).mean() == pytest.approx(np.mean(values), rel=1e-5)
