"""The interpreter of traced programs: evaluates a jaxpr, and takes the values at its taps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import jax
from jax.extend.core import Literal
from jax.sharding import PartitionSpec

from leadline.frameworks.jax import compatibility
from leadline.frameworks.jax.tap import Tap, tap_p

Found = dict[Any, Any]
"""What was taken at each tap: a list of arrays. In a loop over ``n`` iterations they have a first axis of ``n``."""
Take = Callable[[Tap, Sequence[Any]], Any]
"""Returns what to take of the values at a tap; None: nothing. The first array is true where the tap was evaluated."""


class Interpreter:
    """Evaluates a program with JAX; to be called while a program of ours is traced.

    Messages to the user are left out. Of a tap that is evaluated several times the first values are taken.

    Args:
        take: Returns what to take at a tap.
        finish: Makes lists of arrays of what was taken in a program: in all of it, in the body of a loop, in a branch.
    """

    def __init__(self, take: Take, finish: Callable[[Found], Found] = dict) -> None:
        self._take, self._finish = take, finish
        self._is_plain: dict[int, tuple[Any, bool]] = {}

    def evaluate(self, jaxpr: Any, constants: Sequence[Any], values: Sequence[Any]) -> tuple[list[Any], Found]:
        """Return the results of a program, and what was taken."""
        results, found = self._evaluate(jaxpr, constants, values)
        return results, self._finish(found)

    def _evaluate(self, jaxpr: Any, constants: Sequence[Any], values: Sequence[Any]) -> tuple[list[Any], Found]:
        known: dict[Any, Any] = {}
        found: Found = {}

        def read(variable: Any) -> Any:
            return variable.val if isinstance(variable, Literal) else known[variable]

        known.update(zip(jaxpr.constvars, constants, strict=True))
        known.update(zip(jaxpr.invars, values, strict=True))
        for equation in jaxpr.eqns:
            results, inner = self._equation(equation, [read(variable) for variable in equation.invars])
            for tap, taken in inner.items():
                found.setdefault(tap, taken)
            known.update(zip(equation.outvars, results, strict=True))
        return [read(variable) for variable in jaxpr.outvars], found

    def _equation(self, equation: Any, values: list[Any]) -> tuple[Sequence[Any], Found]:
        name = equation.primitive.name
        if equation.primitive is tap_p:
            tap = equation.params["tap"]
            taken = self._take(tap, values)
            return values, {} if taken is None else {tap: taken}
        if name in compatibility.PRINTS:
            return [], {}
        if all(map(self._has_nothing, compatibility.bodies_of(equation))):
            return compatibility.bind(equation, values), {}
        if name in compatibility.BODIES:
            return self._call(equation, values)
        rule = _RULES.get(name)
        return rule(self, equation, values) if rule is not None else (compatibility.bind(equation, values), {})

    def _has_nothing(self, jaxpr: Any) -> bool:
        """Return whether a program holds neither taps nor messages."""
        known = self._is_plain.get(id(jaxpr))
        if known is None:
            is_plain = all(
                equation.primitive is not tap_p
                and equation.primitive.name not in compatibility.PRINTS
                and all(map(self._has_nothing, compatibility.bodies_of(equation)))
                for equation in jaxpr.eqns
            )
            known = self._is_plain[id(jaxpr)] = (jaxpr, is_plain)  # kept alive, so that its id stays unique
        return known[1]

    def _call(self, equation: Any, values: list[Any]) -> tuple[list[Any], Found]:
        params = equation.params
        if params.get("differentiated") and params.get("prevent_cse"):
            values = list(jax.lax.optimization_barrier(tuple(values)))  # what is computed again stays so
        jaxpr, constants = compatibility.program_of(params[compatibility.BODIES[equation.primitive.name]])
        return self._evaluate(jaxpr, constants, values)

    def _scan(self, equation: Any, values: list[Any]) -> tuple[list[Any], Found]:
        params = equation.params
        constants, carried = params["num_consts"], params["num_carry"]
        fixed, first, stacked = values[:constants], values[constants:][:carried], values[constants + carried :]
        jaxpr, consts = compatibility.program_of(params["jaxpr"])

        def body(carry: Any, slices: Any) -> Any:
            results, found = self.evaluate(jaxpr, consts, [*fixed, *carry, *slices])
            return results[:carried], (results[carried:], found)

        keywords = {name: params[name] for name in ("length", "reverse", "unroll")}
        last, (rest, found) = jax.lax.scan(body, first, stacked, **keywords)
        return [*last, *rest], found

    def _cond(self, equation: Any, values: list[Any]) -> tuple[list[Any], Found]:
        index, *operands = values
        programs = [compatibility.program_of(branch) for branch in equation.params["branches"]]
        evaluations = [partial(self._branch, *program) for program in programs]
        forms: Found = {}
        for evaluation in evaluations:
            for tap, form in jax.eval_shape(evaluation, *operands)[1].items():
                forms.setdefault(tap, form)

        def branch(evaluation: Any) -> Any:
            def evaluate(*ops: Any) -> Any:
                results, found = evaluation(*ops)
                return results, {tap: found.get(tap) or _never_taken(form) for tap, form in forms.items()}

            return evaluate

        results, found = jax.lax.switch(index.astype("int32"), list(map(branch, evaluations)), *operands)
        return results, found

    def _branch(self, jaxpr: Any, constants: Sequence[Any], *operands: Any) -> tuple[list[Any], Found]:
        return self.evaluate(jaxpr, constants, operands)

    def _while(self, equation: Any, values: list[Any]) -> tuple[list[Any], Found]:
        """Evaluate a loop of unknown length: nothing is taken in it."""
        params = equation.params
        (condition, c_consts), (jaxpr, b_consts) = map(
            compatibility.program_of, (params["cond_jaxpr"], params["body_jaxpr"])
        )
        of_condition, of_body = params["cond_nconsts"], params["body_nconsts"]
        for_condition, for_body = values[:of_condition], values[of_condition:][:of_body]
        results = jax.lax.while_loop(
            lambda carry: self.evaluate(condition, c_consts, [*for_condition, *carry])[0][0],
            lambda carry: self.evaluate(jaxpr, b_consts, [*for_body, *carry])[0],
            values[of_condition + of_body :],
        )
        return results, {}

    def _shard_map(self, equation: Any, values: list[Any]) -> tuple[list[Any], Found]:
        """Evaluate a program that is mapped over devices: what its first device takes is taken."""
        params = equation.params
        jaxpr, constants = compatibility.program_of(params["jaxpr"])
        axes = tuple(params["mesh"].axis_names)
        forms: list[Tap] = []

        def body(*slices: Any) -> Any:
            results, found = self.evaluate(jaxpr, constants, slices)
            forms[:] = list(found)
            return tuple(results), [[array[None] for array in taken] for taken in found.values()]

        specs = (tuple(params["out_specs"]), PartitionSpec(axes))
        results, taken = compatibility.shard_map(body, params, specs)(*values)
        return list(results), {tap: [array[0] for array in arrays] for tap, arrays in zip(forms, taken, strict=True)}


def _never_taken(form: Sequence[Any]) -> list[Any]:
    with compatibility.enable_x64(True):
        return [jax.lax.full(array.shape, 0, array.dtype) for array in form]


_RULES: Final[dict[str, Callable[[Interpreter, Any, list[Any]], tuple[Any, Found]]]] = {
    "scan": Interpreter._scan,
    "cond": Interpreter._cond,
    "while": Interpreter._while,
    "shard_map": Interpreter._shard_map,
}
