# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/saved/: folders exactly as `save_pretrained` of transformers writes them by
default, model and tokenizer, one for every model_type that qkscope reads; and beside each, in
golden.safetensors, the queries and keys that transformers computes from it for one text, in float32.

    pip install torch transformers==5.23.0 safetensors
    python tools/make_saved_models.py [FOLDER ...]

A folder is named after its model_type. tests/data/saved/versions.json has the versions."""
import json
import shutil
import sys
from pathlib import Path

import tokenizers
import torch
import transformers
from make_model_golden import FULL, LLAMA3, SLIDING, YARN, draw_weights, rope, run
from safetensors.torch import save_file
from transformers.models.mllama.configuration_mllama import MllamaTextConfig, MllamaVisionConfig

SAVED = Path(__file__).resolve().parent.parent / "tests" / "data" / "saved"
TEXT = "In the beginning God created the heaven and the earth. And the earth was without form, and void;"
ROWS = [0, 1, 2, 20, 21, 22, 54]  # positions that are kept
TEMPLATE = ("{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")
SMALL = dict(vocab_size=128, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=256,
             pad_token_id=0, bos_token_id=1, eos_token_id=2)
HALF = {**rope(), "partial_rotary_factor": 0.5}
TWO = {FULL: rope("linear", 1e6, factor=8.0), SLIDING: rope()}
GEMMA = dict(sliding_window=20, query_pre_attn_scalar=24, layer_types=[SLIDING, FULL],
             rope_parameters=TWO, tie_word_embeddings=True)
CROSSED = dict(num_hidden_layers=3, cross_attention_layers=[1], rope_parameters=LLAMA3,
               head_dim=None)
TINY_VISION = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                   image_size=28, patch_size=14)


def text_config(config_class, **changes):
    return config_class(**{k: v for k, v in {**SMALL, **changes}.items() if v is not None})


def gemma3():
    return transformers.Gemma3Config(
        text_config=text_config(transformers.Gemma3TextConfig, **GEMMA).to_dict(),
        vision_config=dict(TINY_VISION, model_type="siglip_vision_model", vision_use_head=False),
        mm_tokens_per_image=4, image_token_index=3, boi_token_index=4, eoi_token_index=5)


def mistral3():
    return transformers.Mistral3Config(
        text_config=text_config(transformers.Ministral3Config, rope_parameters={
            **YARN, "llama_4_scaling_beta": 0.1}).to_dict(),
        vision_config=dict(TINY_VISION, model_type="pixtral", head_dim=8), image_token_index=3,
        spatial_merge_size=1)


def mllama():
    return transformers.MllamaConfig(
        text_config=text_config(MllamaTextConfig, **CROSSED).to_dict(),
        vision_config=MllamaVisionConfig(
            hidden_size=16, attention_heads=2, num_hidden_layers=1, num_global_layers=1, image_size=28,
            patch_size=14, intermediate_size=16, intermediate_layers_indices=[0], max_num_tiles=1,
            vision_output_dim=32, supported_aspect_ratios=[[1, 1]]).to_dict(), image_token_index=3)


# model_type: class of the model, class of its config or a function that makes it, what differs
# from SMALL
MODELS = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", dict(rope_parameters=LLAMA3)),
    "mistral": ("MistralForCausalLM", "MistralConfig", dict(sliding_window=20)),
    "ministral": ("MinistralForCausalLM", "MinistralConfig",
                  dict(sliding_window=20, layer_types=[SLIDING, FULL])),
    "ministral3": ("Ministral3ForCausalLM", "Ministral3Config",
                   dict(rope_parameters={**YARN, "llama_4_scaling_beta": 0.1})),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", dict(head_dim=None, tie_word_embeddings=True)),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", dict(rope_parameters=YARN)),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", dict(no_rope_layers=[1, 0])),
    "glm": ("GlmForCausalLM", "GlmConfig", dict(rope_parameters=HALF)),
    "glm4": ("Glm4ForCausalLM", "Glm4Config", dict(rope_parameters=HALF)),
    "gemma3_text": ("Gemma3ForCausalLM", "Gemma3TextConfig", GEMMA),
    "mllama_text_model": ("MllamaForCausalLM", MllamaTextConfig, CROSSED),
    "gemma3": ("Gemma3ForConditionalGeneration", gemma3, {}),
    "mistral3": ("Mistral3ForConditionalGeneration", mistral3, {}),
    "mllama": ("MllamaForConditionalGeneration", mllama, {}),
}
SHARDED = {"qwen3": "20KB", "gemma3": "20KB"}


def make_tokenizer():
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    made.normalizer = tokenizers.normalizers.NFC()
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    made.decoder = tokenizers.decoders.Metaspace()
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=118, special_tokens=special, show_progress=False,
        initial_alphabet=[chr(c) for c in range(33, 127)])
    made.train_from_iterator([TEXT], trainer)
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        additional_special_tokens=["<|user|>", "<|assistant|>"])
    fast.add_tokens(["LORD"])
    fast.chat_template = TEMPLATE
    return fast


def make(name, tokenizer):
    model_class, config, changes = MODELS[name]
    model_class = getattr(transformers, model_class, None) or getattr(transformers.models.mllama,
                                                                      model_class)
    if isinstance(config, str):
        config = getattr(transformers, config)
    config = text_config(config, **changes) if isinstance(config, type) else config()
    model = model_class(config)
    draw_weights(model, sum(map(ord, name)))
    folder = SAVED / name
    shutil.rmtree(folder, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(folder, **({"max_shard_size": SHARDED[name]}
                                                        if name in SHARDED else {}))
    tokenizer.save_pretrained(folder)
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    seen = run(model_class, folder, ids, torch.float32, "eager")
    golden = {key: value[ROWS].contiguous() for key, value in seen.items() if key.endswith("_post")}
    golden["input_ids"] = ids[0].to(torch.int32)
    save_file(golden, SAVED / f"{name}.golden")
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: {size / 1024:.0f} KiB")


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    shared = make_tokenizer()
    for case in sys.argv[1:] or MODELS:
        make(case, shared)
    (SAVED / "versions.json").write_text(json.dumps(
        {"text": TEXT, "rows": ROWS, "torch": torch.__version__.split("+")[0], "tokenizers": tokenizers.__version__,
         "transformers": transformers.__version__}, indent=1) + "\n")
