"""A training step of JAX as a pure function: its own traced program, evaluated with other arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import jax
import numpy as np

from leadline.frameworks.check.memory import COPIES, lack_of_memory
from leadline.frameworks.check.outcome import NotRepeatableError, Tested, not_applicable, one_line
from leadline.frameworks.check.samples import REDUCED_ROUNDING, ROUNDING
from leadline.frameworks.jax.compatibility import result_tree
from leadline.frameworks.jax.interpreter import Interpreter
from leadline.frameworks.jax.step_calls import JittedCall
from leadline.frameworks.jax.tap import Tap
from leadline.frameworks.pure_check.pure_step import Array, Computed, Leaf, OwnOptimizer, PureStep, Role, StepVariant

_BATCH_STATISTICS: Final = frozenset(("batchnorm_output", "batchnormalization_output"))
_SEED_STEP: Final = 1_000_003

Kind = Literal["loss", "gradients", "own", "layers", "inputs"]


class _Part(NamedTuple):
    """An argument of the function: its leaves, and where they are among all."""

    name: str
    tree: Any
    positions: range


class ProgramStep(PureStep):
    """See ``PureStep``. A step has one mode, in which it was traced.

    Args:
        call: The call of the script, before it is made: its arrays may be donated.
        jit: The original ``jax.jit``.

    Raises:
        NotRepeatableError: The step cannot be computed once more.
    """

    mode: Literal["evaluation", "training"] = "training"
    separator = "/"
    is_warming_up = True
    """A schedule is a part of the program, where it cannot be seen: no rate is called too small."""
    rate = 0.0
    is_adaptive = True

    def __init__(self, call: JittedCall, jit: Callable[..., Any], *, number: int, deadline: float) -> None:
        self.number, self.deadline = number, deadline
        self._jit, self._traced = jit, call.traced
        self._jaxpr = self._traced.jaxpr
        given = call.function.leaves(call.args, call.kwargs)
        if len(given) != len(self._jaxpr.in_avals):
            raise NotRepeatableError("its arguments are not those of its program")
        if any(len(getattr(leaf, "devices", set)()) > 1 for leaf in given):
            raise NotRepeatableError("the arrays of the step are spread over several devices")
        needed = COPIES * sum(int(getattr(leaf, "nbytes", 0)) for leaf in given)
        if lacking := lack_of_memory(needed):
            raise NotRepeatableError(lacking)
        self._given = [jax.numpy.array(leaf, copy=True) for leaf in given]
        self._positions: dict[Tap, int] = {}
        self._taps: dict[Tap, Any] = {}
        jax.eval_shape(self._look, self._given)
        self._gradient_taps = self._find_gradients()
        self._weight_at = [self._positions[tap] for tap, _ in self._gradient_taps]
        self.names: Sequence[str] = [tap.name for tap, _ in self._gradient_taps]
        self.weights: Sequence[Array] = [np.array(self._given[at]) for at in self._weight_at]
        is_of_keras = any(tap.kind == "change" for tap in self._taps)
        self.optimizer = "the optimizer" if is_of_keras else call.owner.current.optimizer or "the optimizer"
        is_reduced = any(weight.dtype.itemsize < 4 for weight in self.weights)
        self.tolerance = REDUCED_ROUNDING if is_reduced else ROUNDING
        self._parts = self._find_parts(call)
        self._keys = [at for at, leaf in enumerate(self._given) if _is_key(leaf)]
        self._compiled: dict[Kind, Any] = {}
        self.leaves: Sequence[Leaf] = self._find_leaves()

    # --- what its arrays are --------------------------------------------------------------------------------

    def _look(self, leaves: Sequence[Any]) -> int:
        """Note the taps of the program, and which of them are at an array that it is given, as it is."""
        at_of = {id(leaf): at for at, leaf in enumerate(leaves)}

        def take(tap: Tap, values: Sequence[Any]) -> None:
            self._taps.setdefault(tap, [(value.shape, value.dtype) for value in values])
            if id(values[0]) in at_of:
                self._positions.setdefault(tap, at_of[id(values[0])])

        Interpreter(take).evaluate(self._jaxpr.jaxpr, self._jaxpr.consts, leaves)
        return 0

    def _find_gradients(self) -> list[tuple[Tap, Tap]]:
        """Return the taps of the trained weights, and of their gradients."""
        losses = [tap for tap in self._taps if tap.kind == "loss"]
        if len(losses) != 1:
            count = len(losses)
            raise NotRepeatableError(f"the step computes the gradients of {count} losses, which are not told apart")
        self._loss = losses[0]
        if self._taps[self._loss][0][0] != ():
            raise NotRepeatableError("the step computes gradients of each sample")
        by_name = {tap.name: tap for tap in self._taps if tap.kind == "gradient" and tap.group == self._loss.group}
        parameters = [tap for tap in self._taps if tap.kind == "parameter" and tap.group == self._loss.group]
        found = [
            (tap, by_name[tap.name])
            for tap in parameters
            if tap in self._positions and tap.name in by_name and self._taps[tap] == self._taps[by_name[tap.name]]
        ]
        if not found:
            raise NotRepeatableError("the weights of the step are not among its arguments")
        return found

    def _find_parts(self, call: JittedCall) -> list[_Part]:
        positions, names = call.function.static_arguments
        count = len(call.args)
        static = {at % count if at < 0 else at for at in positions if -count <= at < count}
        try:
            parameters = list(inspect.signature(call.function.function).parameters)
        except (TypeError, ValueError):
            parameters = []
        named = [
            (parameters[at] if at < len(parameters) else f"argument {at}", value)
            for at, value in enumerate(call.args)
            if at not in static
        ]
        named += [(name, call.kwargs[name]) for name in sorted(call.kwargs) if name not in names]
        parts, start = [], 0
        for name, value in named:
            count = len(jax.tree_util.tree_leaves(value))
            parts.append(_Part(name, value, range(start, start + count)))
            start += count
        if start != len(self._given):
            raise NotRepeatableError("its arguments are not those of its program")
        return parts

    def _is_state(self, part: _Part) -> bool:
        """Whether an argument has weights or state of the optimizer among its arrays."""
        kinds = ("parameter", "weight", "state")
        held = {at for tap, at in self._positions.items() if tap.kind in kinds}
        return any(at in held for at in part.positions)

    def _find_leaves(self) -> list[Leaf]:
        found = []
        for part in self._parts:
            if self._is_state(part):
                continue
            paths, _ = jax.tree_util.tree_flatten_with_path(part.tree)
            for at, (path, _) in zip(part.positions, paths, strict=True):
                leaf = self._given[at]
                if at in self._keys or not leaf.ndim or leaf.dtype.kind not in "fiub":
                    continue
                name = "/".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path) or part.name
                role: Role = "weight" if name in ("weights", "sample_weight", "mask") and leaf.ndim == 1 else ""
                name = f"{part.name}[{name}]" if name.replace("/", "").isdecimal() else name
                found.append(Leaf(at, name if path else part.name, np.array(leaf), role))
        return found

    # --- computing ------------------------------------------------------------------------------------------

    def _evaluated(self, leaves: Sequence[Any], wanted: Callable[[Tap], bool]) -> tuple[list[Any], dict[Tap, Any]]:
        interpreter = Interpreter(lambda tap, values: list(values) if wanted(tap) else None)
        results, found = interpreter.evaluate(self._jaxpr.jaxpr, self._jaxpr.consts, leaves)
        return results, found

    def _predictions(self, found: Mapping[Tap, Any]) -> list[Any]:
        given = [values[0] for tap, values in found.items() if tap.kind == "loss_call"]
        made = [values[0] for tap, values in found.items() if _is_prediction(tap)]
        return given or made[::-1]

    def _program(self, kind: Kind) -> Callable[[Sequence[Any]], Any]:
        def compute(leaves: Sequence[Any]) -> Any:
            results, found = self._evaluated(leaves, lambda tap: tap.kind in _WANTED[kind])
            if kind == "layers":
                return [values[0] for tap, values in found.items() if tap in self._layer_taps()]
            loss = found[self._loss][0]
            if kind == "own":
                return loss, results
            predictions = self._predictions(found)
            if kind == "loss":
                return loss, predictions
            used = {tap.name: values[0] for tap, values in found.items() if tap.kind == "used_gradient"}
            return loss, predictions, [found[tap][0] for _, tap in self._gradient_taps], used

        return compute

    def _layer_taps(self) -> list[Tap]:
        return [tap for tap in self._taps if tap.kind == "layer" and "_output_" in tap.name]

    def _run(
        self,
        kind: Kind,
        given: Mapping[int, Array] | None = None,
        weights: Sequence[Array] | None = None,
        seed: int | None = None,
        state: Mapping[int, Any] | None = None,
    ) -> Any:
        leaves = list(self._given)
        for at, value in (state or {}).items():
            leaves[at] = value
        for at, value in zip(self._weight_at, weights if weights is not None else (), strict=False):
            leaves[at] = value
        for at, value in (given or {}).items():
            if value.shape != self._given[at].shape:
                raise NotRepeatableError("a step of JAX is traced for arrays of these shapes")
            leaves[at] = value
        if seed is not None:
            for at in self._keys:
                leaves[at] = _other_key(leaves[at], seed)
        if kind not in self._compiled:
            self._compiled[kind] = self._jit(self._program(kind))
        try:
            return self._compiled[kind](leaves)
        except (TypeError, ValueError, NotImplementedError, RuntimeError) as error:
            raise NotRepeatableError(f"the step cannot be computed once more: {one_line(error)}") from error

    def compute_variant(self, variant: StepVariant, *, gradients: bool) -> Computed:
        if not gradients:
            loss, predictions = self._run("loss", variant.given, variant.weights, variant.seed)
            return Computed(float(loss), list(map(_as_numpy, predictions)))
        loss, predictions, found, _ = self._run("gradients", variant.given, variant.weights, variant.seed)
        return Computed(float(loss), list(map(_as_numpy, predictions)), list(map(_as_numpy, found)))

    def layers(self, given: Mapping[int, Array]) -> list[tuple[str, Array]]:
        names = [tap.name.rpartition("_output_")[0] for tap in self._layer_taps()]
        return list(zip(names, map(_as_numpy, self._run("layers", given)), strict=False))

    def used_gradients(self) -> Sequence[Array | None] | None:
        used = self._run("gradients")[3]
        found = [used.get(name) for name in self.names]
        if all(gradient is None for gradient in found):
            return None
        return [None if gradient is None else _as_numpy(gradient) for gradient in found]

    def input_gradient(self, key: int) -> Array | None:
        shapes = [self._taps[tap][0] for tap in self._taps if tap.kind == "loss_call" or _is_prediction(tap)]
        if not shapes or self._given[key].dtype.kind != "f":
            return None

        def compute(leaves: Sequence[Any], random: Any) -> Any:
            def predicted(leaf: Any) -> Any:
                changed = [leaf if at == key else value for at, value in enumerate(leaves)]
                return self._predictions(self._evaluated(changed, lambda tap: tap.kind in _WANTED["loss"])[1])[0]

            made, back = jax.vjp(predicted, leaves[key])
            return back(random[: made.size].reshape(made.shape).astype(made.dtype))[0]

        most = max(int(np.prod(shape)) for shape, _ in shapes)
        random = np.random.default_rng(3).standard_normal(most).astype(np.float32)
        return _as_numpy(self._jit(compute)(self._given, random))

    # --- the optimizer --------------------------------------------------------------------------------------

    def own_optimizer(self) -> OwnOptimizer | None:
        places = self._places_of_state()
        if not any(tap.kind in ("used_gradient",) for tap in self._taps) and not places:
            return None
        return _Own(self, places) if set(self._weight_at) <= set(places) else None

    def _places_of_state(self) -> dict[int, int]:
        """Return which result takes the place of which array in the next step: where the arguments come back."""
        tree = result_tree(self._traced)
        results = jax.tree_util.tree_unflatten(tree, list(range(tree.num_leaves)))
        candidates = _subtrees(results)
        places: dict[int, int] = {}
        used: set[int] = set()
        for part in self._parts:
            if not self._is_state(part):
                continue
            forms = [(self._given[at].shape, self._given[at].dtype) for at in part.positions]
            for candidate in candidates:
                at_of = jax.tree_util.tree_leaves(candidate)
                made = [(self._jaxpr.out_avals[at].shape, self._jaxpr.out_avals[at].dtype) for at in at_of]
                if made == forms and not used & set(at_of):
                    used |= set(at_of)
                    places |= dict(zip(part.positions, at_of, strict=True))
                    break
        return places

    # --- what is of this framework --------------------------------------------------------------------------

    def why_mixed(self) -> str:
        if not self._layer_taps():
            return "samples are mixed, and without layers of a library it is not seen whether by statistics on purpose"
        if any(_BATCH_STATISTICS & set(tap.collections) for tap in self._taps):
            return "the step normalizes by the statistics of its batch, and has no mode in which samples are apart"
        return ""

    def keeps_samples(self, size: int) -> bool:
        return False  # whatever lasts from step to step is given to it

    def why_padding_is_read(self) -> str:
        return "a step of JAX is traced for arrays of these shapes: padding cannot be cut off"

    def test_modes(self) -> Tested:
        return not_applicable("a step of JAX has one mode: evaluation is another function, which is not seen here")

    def test_state(self) -> Tested:
        return not_applicable("the state of a training with JAX is what its functions are given and return")

    def test_parts(self) -> Tested:
        return not_applicable("the step computes its gradients once; those of other calls are not seen")


_WANTED: Final[dict[Kind, tuple[str, ...]]] = {
    "loss": ("loss", "loss_call", "layer"),
    "gradients": ("loss", "loss_call", "layer", "gradient", "used_gradient"),
    "own": ("loss",),
    "layers": ("layer",),
    "inputs": ("loss_call", "layer"),
}


class _Own:
    """See ``OwnOptimizer``: the whole step, with its results as the next arguments."""

    def __init__(self, step: ProgramStep, places: Mapping[int, int]) -> None:
        self._step, self._places = step, places
        self._state: dict[int, Any] = {}

    def advance(self, seed: int | None) -> tuple[float, Sequence[Array]]:
        loss, results = self._step._run("own", seed=seed, state=self._state)
        self._state = {at: results[place] for at, place in self._places.items()}
        return float(loss), [np.array(self._state[at]) for at in self._step._weight_at]


def _is_prediction(tap: Tap) -> bool:
    return tap.kind == "layer" and "outputs" in tap.collections


def _subtrees(tree: Any) -> list[Any]:
    """Return a tree of results and the trees in it, those on the outside first."""
    found = [tree]
    children, structure = jax.tree_util.tree_flatten(tree, is_leaf=lambda part: part is not tree)
    for child in children if structure.num_nodes > 1 else ():
        found += _subtrees(child)
    return found


def _is_key(leaf: Any) -> bool:
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return True
    return bool(leaf.dtype == np.uint32 and leaf.shape and leaf.shape[-1] == 2)


def _other_key(leaf: Any, seed: int) -> Any:
    """Return a key, or an array of keys, that draws other random numbers."""
    if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(leaf) + np.uint32((seed + 1) * _SEED_STEP % (1 << 31))
    data = np.asarray(jax.random.key_data(leaf)) + np.uint32((seed + 1) * _SEED_STEP % (1 << 31))
    return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))


def _as_numpy(value: Any) -> Array:
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name.startswith(("bfloat", "float8", "float16")) else array
