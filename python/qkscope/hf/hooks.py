# SPDX-License-Identifier: Apache-2.0
"""Seeing the calls of a model's attention function while it runs, without changing what it computes.

Whatever attention function the model uses is wrapped in place, for the time of a `with`. No new one is registered:
under a new name transformers leaves masks, windows and sinks out.
"""
from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

NAMES = ("module", "query", "key", "value", "attention_mask")
ROTATES = re.compile(r"^_?apply_\w*(rotary|rope)\w*$")


@dataclass
class Rotation:
    """One call of a function that rotates: tensors that went in and came out, in their order."""

    inputs: list[Any]
    outputs: list[Any]
    tables: list[Any]  # cosines and sines, or complex numbers


def version(tensor: Any) -> int:
    """Differs once a tensor was changed in place."""
    return -1 if tensor.is_inference() else int(tensor._version)


@dataclass
class Call:
    """One call of an attention function. Queries and keys are [texts, heads, tokens, d]; the keys of a cache, which
    come before the new ones, are among them."""

    module: Any
    query: Any
    key: Any
    value: Any
    mask: Any
    options: dict[str, Any]  # keyword arguments
    rotations: list[Rotation] = field(default_factory=list)
    output: Any = None  # what the model's own function returned, where asked for
    weights: Any = None
    versions: tuple[int, int] = (0, 0)

    def was_changed(self) -> bool:
        """Whether the model has changed queries or keys in place since the call."""
        return self.versions != (version(self.query), version(self.key))


def scopes(decoder: Any) -> list[dict[str, Any]]:
    """The global names that the forward functions of a model's modules see, each once."""
    found: dict[int, dict[str, Any]] = {}
    for kind in {type(module) for module in decoder.modules()}:
        for owner in kind.__mro__:
            forward = owner.__dict__.get("forward")
            if callable(forward):
                names = getattr(inspect.unwrap(forward), "__globals__", {})
                if not names.get("__name__", "torch").startswith("torch"):
                    found[id(names)] = names
    return list(found.values())


def registries(decoder: Any) -> list[Any]:
    """The tables of attention functions that these modules look into: that of transformers, and files' own."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    found = {id(ALL_ATTENTION_FUNCTIONS): ALL_ATTENTION_FUNCTIONS}
    for names in scopes(decoder):
        for value in list(names.values()):
            if isinstance(value, type(ALL_ATTENTION_FUNCTIONS)):
                found[id(value)] = value
    return list(found.values())


class Watch:
    """Calls `on_call` with a Call before each attention function of the decoder's modules, in a `with`.

    rotations: also what the functions of the model's own files that rotate were given, since the last call.
    after: called with the Call, its weights set, once the model's function has returned."""

    def __init__(self, decoder: Any, on_call: Callable[[Call], Any], *, rotations: bool = False,
                 after: Callable[[Call], Any] | None = None) -> None:
        self.decoder, self.on_call, self.rotations, self.after = decoder, on_call, rotations, after
        self.modules: dict[int, str] = {}
        self._pending: list[Rotation] = []
        self._stack = ExitStack()

    def __enter__(self) -> Watch:
        # Modules as they are now: some may have been replaced since the last time.
        self.modules = {id(module): name for name, module in self.decoder.named_modules()}
        with ExitStack() as stack:
            for registry in registries(self.decoder):
                stack.enter_context(self._registry(registry))
            for names in scopes(self.decoder):
                stack.enter_context(self._names(names))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._pending.clear()

    @contextmanager
    def _registry(self, registry: Any) -> Iterator[None]:
        local = registry._local_mapping
        before = dict(local)
        asked = registry.__dict__.get("get_interface")
        # Of some entries it is asked directly, of "eager", which is none of them, by its method alone.
        local.update({name: self._attention(registry[name]) for name in list(registry)})
        if hasattr(registry, "get_interface"):
            own = registry.get_interface
            registry.get_interface = lambda *args, **kwargs: self._attention(own(*args, **kwargs))
        try:
            yield
        finally:
            local.clear()
            local.update(before)
            if asked is not None:
                registry.get_interface = asked
            else:
                registry.__dict__.pop("get_interface", None)

    @contextmanager
    def _names(self, names: dict[str, Any]) -> Iterator[None]:
        """Functions of a modeling file, where they are looked up when it runs."""
        changed: dict[str, Any] = {}
        for name, value in list(names.items()):
            if not isinstance(value, FunctionType):
                continue
            if name == "eager_attention_forward":
                changed[name] = self._attention(value)
            elif self.rotations and ROTATES.match(name):
                changed[name] = self._rotation(value)
        before = {name: names[name] for name in changed}
        names.update(changed)
        try:
            yield
        finally:
            names.update(before)

    def _attention(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        if getattr(inner, "_qkscope", False) or inner is None:
            return inner

        def attention(*args: Any, **kwargs: Any) -> Any:
            call = self._see(args, kwargs)
            result = inner(*args, **kwargs)
            if call is not None and self.after is not None:
                call.output, call.weights = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
                self.after(call)
            return result

        attention._qkscope = True  # type: ignore[attr-defined]
        return attention

    def _see(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        given = {**dict(zip(NAMES, args)), **kwargs}
        pending, self._pending = self._pending, []
        if id(given.get("module")) not in self.modules:  # a tower for images or sound
            return None
        options = {name: value for name, value in given.items() if name not in NAMES}
        call = Call(given["module"], given["query"], given["key"], given.get("value"), given.get("attention_mask"),
                    options, pending, versions=(version(given["query"]), version(given["key"])))
        self.on_call(call)
        return call

    def _rotation(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        if getattr(inner, "_qkscope", False):
            return inner

        def rotate(*args: Any, **kwargs: Any) -> Any:
            import torch
            result = inner(*args, **kwargs)
            outputs = [x for x in (result if isinstance(result, (tuple, list)) else [result]) if torch.is_tensor(x)]
            given = [x for x in [*args, *kwargs.values()] if torch.is_tensor(x)]
            given += [x for pair in args if isinstance(pair, (tuple, list)) for x in pair if torch.is_tensor(x)]
            shapes = {x.shape for x in outputs}
            inputs = [x for x in given if x.shape in shapes][:len(outputs)]
            taken = {id(x) for x in inputs}
            self._pending.append(Rotation(inputs, outputs, [x for x in given if id(x) not in taken]))
            return result

        rotate._qkscope = True  # type: ignore[attr-defined]
        return rotate

    def name(self, call: Call) -> str:
        return self.modules.get(id(call.module), type(call.module).__name__)


def layer_of(call: Call, name: str) -> int | None:
    """The layer that a call is of: as its module says, else the first number in the module's name."""
    layer = getattr(call.module, "layer_idx", None)
    if isinstance(layer, int) and layer >= 0:
        return layer
    number = re.search(r"(?:^|\.)(\d+)(?:\.|$)", name)
    return int(number.group(1)) if number else None


def file_of(module: Any) -> str:
    return getattr(sys.modules.get(type(module).__module__), "__file__", None) or type(module).__module__
