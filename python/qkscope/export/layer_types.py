# SPDX-License-Identifier: Apache-2.0
"""Which layers see a window alone, as `vllm --hf-overrides` and the configurations of transformers have it: of an ablation of
windows layer by layer."""
from __future__ import annotations

import json
import re
from typing import Any

from .._call import DataError, NotFoundError
from .._checks import refuse
from .._run import warn
from .._settings import wrong
from ._ablation import Ablation, is_harmless, is_number, most_of, reach_of, read_ablation, warn_of_reach
from ._files import config
from ._request import Made, Request
from ._rotary import Rope, model_rope

ABOUT = "layers with a window (JSON), for vllm --hf-overrides; of an ablation of windows by layer"
TYPES, MADE_FROM = "layer-types.json", "layer-types-made-from.json"
FILES = (TYPES, MADE_FROM)
KEYWORDS = ("model", "recent", "tolerance")
STAGE = None  # it is made of an ablation
# model_type: what obeys layer_types, what passes over them.
_READERS = {"llama": ("vLLM", "transformers"), "ministral": ("transformers", ""), "qwen2": ("transformers", ""),
            "qwen3": ("transformers", "vLLM"), "smollm3": ("transformers", "")}
_WHY_NOT = {"gemma3_text": "the type of a layer chooses its theta, too", "mistral": "all layers have one window",
            "ministral3": "all layers have one window"}
_KIND = ("full_attention", "sliding_attention")
_WINDOW = re.compile(r"window:(\d+)")


def _choose_window(ablation: Ablation, changes: set[str], recent: int | None) -> int:
    there = {int(match[1]) for match in map(_WINDOW.fullmatch, changes) if match}
    sizes = there if recent is None else there & {recent}
    place = ablation.folder / "ablation_groups.csv"
    if not sizes:
        raise NotFoundError(f"{place}: no window:{recent or 'W'} without first keys that are kept, which a layer cannot do: qkscope ablate "
                            "--groups layer --what window:W")
    if len(sizes) > 1:
        raise NotFoundError(f"{place}: several windows: {', '.join(map(str, sorted(sizes)))}: choose one by --recent")
    return sizes.pop()


def _losses(ablation: Ablation, recent: int | None) -> tuple[int, dict[str, dict[str, Any]]]:
    """The window, and by the names of groups what the model loses by it."""
    place, names = ablation.folder / "ablation_groups.csv", ("delta", "delta_lo", "delta_hi")
    rows = ablation.rows("ablation_groups.csv", "group", "what", "heads", *names)
    window = _choose_window(ablation, {what for _, what, *_ in rows}, recent)
    losses = {group: {**dict(zip(("heads", *names), loss[:-3], strict=True)), **reach_of(loss[-3:])}
              for group, what, *loss in rows if what == f"window:{window}"}
    for layer in range(ablation.layers):
        loss = losses.get(f"layer {layer}", {})
        if loss.get("heads") != ablation.queries:
            raise NotFoundError(f"{place}: no row of window:{window} with all heads of layer {layer}: run qkscope ablate --groups layer, "
                                "without --layers and --heads")
        if not all(is_number(loss[name]) for name in names):
            raise DataError(f"{place}: layer {layer}: no interval, without which nothing says how much is lost at most: give ablate "
                            "more texts")
    if ablation.told.get("suffix"):
        raise DataError(f"{place}: the last {ablation.told['suffix']} rows alone were changed: run qkscope ablate without --suffix")
    if not any(loss["delta"] for loss in losses.values()):
        raise DataError(f"{place}: no layer loses or gains anything by window:{window}: the texts may be no longer than that")
    return window, losses


def _together(ablation: Ablation, chosen: list[int], losses: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """Loss and interval of the group that is these layers, if there is one."""
    heads = {(layer, head) for layer in chosen for head in range(ablation.queries)}
    for group in ablation.told.get("groups", []):
        if not group["draw"] and group["group"] in losses and {tuple(head) for head in group["heads"]} == heads:
            return losses[group["group"]]
    return None


def _model(request: Request, ablation: Ablation) -> Rope:
    """Of which readers are known to choose layers by their types."""
    if request.model is None:
        raise refuse("model", "not given", "the model of the ablation", "its configuration says which layers have a window already")
    rope = model_rope(request.model, str(ablation.folder), ablation.layers, ablation.queries, ablation.keys, 0)
    if rope.architecture not in _READERS:
        raise DataError(f"{request.model}: layer_types of {rope.architecture} cannot be chosen: "
                        f"{_WHY_NOT.get(rope.architecture, 'no program is known to obey them')}")
    return rope


def _warn(architecture: str, chosen: list[int], together: dict[str, Any] | None, tolerance: float) -> None:
    obey, ignore = _READERS[architecture]
    if ignore:
        warn(f"{obey} obeys layer_types of {architecture}, {ignore} passes over them without a word")
    if chosen and together is None:
        names = ",".join(f"{layer}:*" for layer in chosen)
        warn(f"what the model loses with all of these windows at once was not measured: add --groups {names} to qkscope ablate")
    elif together is not None and not is_harmless(together, tolerance):
        most = most_of(together)
        warn(f"all of these windows at once may cost {most:.5f} nats a token that they change, and the tolerance is {tolerance:g}"
             if most >= tolerance else "all of these windows at once changed too few texts to say what they cost")


def make(request: Request) -> Made:
    ablation = read_ablation(request.source)
    if not request.tolerance > 0:
        raise wrong("tolerance", request.tolerance, "expected nats a token, above 0")
    rope = _model(request, ablation)
    window, losses = _losses(ablation, request.recent)
    own = {one.window for one in rope.layers if one.window} - {window}
    if own:
        raise DataError(f"{request.model}: some layers have a window of {min(own)} tokens, and the format has room for one: qkscope "
                        f"ablate --what window:{min(own)}")
    of_layers = [losses[f"layer {layer}"] for layer in range(ablation.layers)]
    chosen = [layer for layer, loss in enumerate(of_layers)
              if not rope.layers[layer].window and is_harmless(loss, request.tolerance)]
    warn_of_reach(of_layers, f"window:{window}")
    together = _together(ablation, chosen, losses)
    _warn(rope.architecture, chosen, together, request.tolerance)
    types = {"layer_types": [_KIND[bool(one.window) or layer in chosen] for layer, one in enumerate(rope.layers)],
             "sliding_window": window, "use_sliding_window": True}
    told = {**ablation.origin(f"window:{window}"), "tolerance": request.tolerance, "windowed": chosen, "together": together,
            "layers": of_layers}
    says = f"{len(chosen)} of {ablation.layers} layers may have a window of {window} tokens"
    if together is not None:
        says += f"; at once they cost {together['delta']:+.5f} nats a token, {together['delta_lo']:+.5f} to {together['delta_hi']:+.5f}"
    return Made({TYPES: [(json.dumps(types) + "\n").encode()], MADE_FROM: config(told)}, ablation.layers * ablation.queries, says=says)
