# SPDX-License-Identifier: Apache-2.0
"""Seeing the calls of a model's attention function while it runs, without changing what it computes.

Whatever attention function the model uses is wrapped in place, for the time of a `with`. What other threads run
meanwhile is not seen, and not changed. No new one is registered: under a new name transformers leaves masks, windows and sinks out.
"""
from __future__ import annotations

import inspect
import re
import threading
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


class _Watches(threading.local):
    """Those of a thread, the innermost last."""

    def __init__(self) -> None:
        self.inside: list[Watch] = []


# Functions are wrapped once for all threads that watch, and each thread sees its own calls: what other threads run
# goes to the functions as if nothing were there.
_WATCHES = _Watches()
_LOCK = threading.Lock()
_WRAPPED: dict[int, tuple[int, Callable[[], None]]] = {}  # of a table: by how many, and what takes it back


def _watching() -> Watch | None:
    return _WATCHES.inside[-1] if _WATCHES.inside else None


@contextmanager
def _wrapped(table: Any, wrap: Callable[[Any], Callable[[], None]]) -> Iterator[None]:
    """A table with its functions wrapped, by the first that comes; the last that goes takes it back."""
    with _LOCK:
        count, undo = _WRAPPED.get(id(table)) or (0, wrap(table))
        _WRAPPED[id(table)] = (count + 1, undo)
    try:
        yield
    finally:
        with _LOCK:
            count, undo = _WRAPPED.pop(id(table))
            if count > 1:
                _WRAPPED[id(table)] = (count - 1, undo)
            else:
                undo()


def _exchange(table: dict[str, Any], changed: dict[str, Any]) -> Callable[[], None]:
    """Puts functions into a table. Others may read it meanwhile, so nothing else in it is touched."""
    before = {name: table[name] for name in changed if name in table}
    table.update(changed)

    def undo() -> None:
        for name, function in changed.items():
            if table.get(name) is not function:
                continue  # somebody else has put another one there
            if name in before:
                table[name] = before[name]
            else:
                del table[name]

    return undo


def _wrap_registry(registry: Any) -> Callable[[], None]:
    # Of some entries it is asked directly, of "eager", which is none of them, by its method alone.
    undo = _exchange(registry._local_mapping, {name: _attention(registry[name]) for name in list(registry)})
    if not hasattr(registry, "get_interface"):
        return undo
    own = registry.get_interface
    undo_method = _exchange(registry.__dict__, {
        "get_interface": lambda *args, **kwargs: _attention(own(*args, **kwargs))})

    def both() -> None:
        undo()
        undo_method()

    return both


def _wrap_names(names: dict[str, Any]) -> Callable[[], None]:
    """Functions of a modeling file, where they are looked up when it runs."""
    changed: dict[str, Any] = {}
    for name, value in list(names.items()):
        if not isinstance(value, FunctionType):
            continue
        if name == "eager_attention_forward":
            changed[name] = _attention(value)
        elif ROTATES.match(name):
            changed[name] = _rotation(value)
    return _exchange(names, changed)


def _attention(inner: Callable[..., Any]) -> Callable[..., Any]:
    if getattr(inner, "_qkscope", False) or inner is None:
        return inner

    def attention(*args: Any, **kwargs: Any) -> Any:
        watch = _watching()
        call = watch.see(args, kwargs) if watch is not None else None
        result = inner(*args, **kwargs)
        if call is not None and watch is not None and watch.after is not None:
            call.output, call.weights = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
            watch.after(call)
        return result

    attention._qkscope = True  # type: ignore[attr-defined]
    return attention


def _rotation(inner: Callable[..., Any]) -> Callable[..., Any]:
    if getattr(inner, "_qkscope", False):
        return inner

    def rotate(*args: Any, **kwargs: Any) -> Any:
        result = inner(*args, **kwargs)
        watch = _watching()
        if watch is not None and watch.rotations:
            watch.pending.append(_seen_rotation(args, kwargs, result))
        return result

    rotate._qkscope = True  # type: ignore[attr-defined]
    return rotate


def _seen_rotation(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Rotation:
    import torch
    outputs = [x for x in (result if isinstance(result, (tuple, list)) else [result]) if torch.is_tensor(x)]
    given = [x for x in [*args, *kwargs.values()] if torch.is_tensor(x)]
    given += [x for pair in args if isinstance(pair, (tuple, list)) for x in pair if torch.is_tensor(x)]
    shapes = {x.shape for x in outputs}
    inputs = [x for x in given if x.shape in shapes][:len(outputs)]
    taken = {id(x) for x in inputs}
    return Rotation(inputs, outputs, [x for x in given if id(x) not in taken])


class Watch:
    """Calls `on_call` with a Call before each attention function of the decoder's modules, in a `with`, of what the
    same thread runs.

    rotations: also what the functions of the model's own files that rotate were given, since the last call.
    after: called with the Call, its output and weights set, once the model's function has returned. What it changes in
    `output`, in place, the model goes on with."""

    def __init__(self, decoder: Any, on_call: Callable[[Call], Any], *, rotations: bool = False,
                 after: Callable[[Call], Any] | None = None) -> None:
        self.decoder, self.on_call, self.rotations, self.after = decoder, on_call, rotations, after
        self.modules: dict[int, str] = {}
        self.pending: list[Rotation] = []
        self._stack = ExitStack()

    def __enter__(self) -> Watch:
        # Modules as they are now: some may have been replaced since the last time.
        self.modules = {id(module): name for name, module in self.decoder.named_modules()}
        with ExitStack() as stack:
            for registry in registries(self.decoder):
                stack.enter_context(_wrapped(registry, _wrap_registry))
            for names in scopes(self.decoder):
                stack.enter_context(_wrapped(names, _wrap_names))
            self._stack = stack.pop_all()
        _WATCHES.inside.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _WATCHES.inside.remove(self)
        self._stack.close()
        self.pending.clear()

    def see(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        given = {**dict(zip(NAMES, args)), **kwargs}
        pending, self.pending = self.pending, []
        if id(given.get("module")) not in self.modules:  # a tower for images or sound
            return None
        options = {name: value for name, value in given.items() if name not in NAMES}
        call = Call(given["module"], given["query"], given["key"], given.get("value"), given.get("attention_mask"),
                    options, pending, versions=(version(given["query"]), version(given["key"])))
        self.on_call(call)
        return call

    def name(self, call: Call) -> str:
        return self.modules.get(id(call.module), type(call.module).__name__)


def layer_of(call: Call, name: str) -> int | None:
    """The layer that a call is of: as its module says, else the first number in the module's name."""
    layer = getattr(call.module, "layer_idx", None)
    if isinstance(layer, int) and layer >= 0:
        return layer
    number = re.search(r"(?:^|\.)(\d+)(?:\.|$)", name)
    return int(number.group(1)) if number else None
