# SPDX-License-Identifier: Apache-2.0
"""Queries and keys, before and after RoPE, and losses of tiny models with many keys in config.json are those of
transformers, which opens them by their config.json. config_variants.py lists them, hf_configs.py makes what is read here."""
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT

from config_variants import VARIANTS, VISION
from hf_environment import hf_run, once

sys.path += [str(ROOT / "tests" / "prefill"), str(ROOT / "tests" / "model")]
from checkpoints import random_tensors, small_config, stored, text_config, write_checkpoint  # noqa: E402
from prefill_runs import prefill, text  # noqa: E402
from test_losses import losses  # noqa: E402

pytestmark = pytest.mark.test_all
TOKENS = text(100, 96).tolist()


def write(folder, kind, changes, head, whole):
    config = small_config(kind, pad_token_id=0, **changes)  # that of the class may be beyond 96
    tensors = random_tensors(config)
    rng, width = np.random.default_rng(5), WIDTH
    tensors["norm.weight"] = (1 + 0.2 * rng.standard_normal(width)).astype("f4")
    output = rng.standard_normal((96, width)).astype("f4")
    extra = {"lm_head.weight": ("F32", output.shape, stored(output, "F32")[0])} if head in ("own", "both") else {}
    if head == "alone":
        embedding = tensors.pop("embed_tokens.weight")
        extra = {"lm_head.weight": ("F32", embedding.shape, stored(embedding, "F32")[0])}
    prefix = "model.language_model." if kind in VISION else "model."
    if kind in VISION:
        config |= {"vision_config": VISION[kind], **whole}
    if text_config(config)["model_type"].startswith("gemma"):
        tensors["norm.weight"] -= 1
    write_checkpoint(folder, config, prefix=prefix, tensors=tensors, extra=extra)


WIDTH = small_config("llama")["hidden_size"]


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    def make(folder):
        for name, variant in VARIANTS.items():
            write(folder / name, *variant)
        (folder / "tokens.json").write_text(json.dumps(TOKENS))
        hf_run(Path(__file__).with_name("hf_configs.py"), folder)
    return once(tmp_path_factory, "hf_configs", make)


@pytest.mark.parametrize("name", VARIANTS)
def test_as_transformers(models, tmp_path, name):
    model = models / name
    kind = (model / "type.txt").read_text()
    assert (model / "out.npz").exists(), f"transformers: {kind}"
    wanted = dict(np.load(model / "out.npz"))
    found = losses(model, [TOKENS], tmp_path)[0]
    rows = {f"{layer}.{kind}_{'post' if rotated else 'pre'}": values
            for (layer, kind, rotated, _), (_, values) in prefill(model, [TOKENS], tmp_path).items()}
    assert rows.keys() == wanted.keys() - {"losses"}
    for key, values in rows.items():
        assert np.abs(values - wanted[key]).max() <= 2e-5 * np.abs(wanted[key]).max(), key
    np.testing.assert_allclose(found, wanted["losses"], atol=2e-4, err_msg=kind)
