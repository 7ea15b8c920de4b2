# SPDX-License-Identifier: Apache-2.0
"""Tells JAX of the platform `meshlo`. JAX finds this module by its entry point and calls initialize() before it looks for devices."""
import collections.abc
import os
import pathlib

LIBRARY = str(pathlib.Path(__file__).with_name("libmeshlo_pjrt.so"))


class _Options(collections.abc.Mapping):
    """Read when the client is made, so that a program may still choose; versions before JAX 0.7 take no function here."""

    def _values(self):
        options = {"platform": "meshlo", "numerics": os.environ.get("MESHLO_NUMERICS", "exact")}
        if os.environ.get("MESHLO_TOPOLOGY"):
            options["topology"] = os.environ["MESHLO_TOPOLOGY"]
        return options

    def __getitem__(self, key):
        return self._values()[key]

    def __iter__(self):
        return iter(self._values())

    def __len__(self):
        return len(self._values())


def _interpret_pallas(ctx, *nodes, interpret, **params):
    """Lowers a Pallas kernel as interpret=True does: there is no TPU core to compile it for."""
    from jax._src.pallas import pallas_call

    if not interpret and os.environ.get("MESHLO_PALLAS", "interpret") == "interpret":
        try:
            return pallas_call._pallas_call_lowering(ctx, *nodes, interpret=True, **params)
        except Exception as problem:
            raise NotImplementedError(
                f"the Pallas kernel {params.get('name_and_src_info', '')} cannot be interpreted by JAX's interpreter of HLO: "
                "trace it under pltpu.force_tpu_interpret_mode(), which simulates a TPU's memories, DMAs and semaphores"
            ) from problem
    return pallas_call._pallas_call_lowering(ctx, *nodes, interpret=interpret, **params)


# Decompositions that JAX has for CPUs and not for TPUs, by the names of their primitives. Meshlo has LAPACK's calls.
_FROM_CPU = frozenset(("eig", "schur", "hessenberg", "tridiagonal", "geqp3"))


class _Lowerings(collections.abc.MutableMapping):
    """JAX's table of lowering rules for TPUs, with one more for Pallas kernels and those of _FROM_CPU from the table for CPUs.

    Rules that libraries register later, under either name, go to JAX's own table, and come before these. They are found by
    the primitives' names, so that neither Pallas nor jax.scipy need be imported here.
    """

    def __init__(self, rules, cpu_rules, entry):
        self._rules = rules
        self._cpu_rules = cpu_rules
        self._pallas = entry(_interpret_pallas, True)

    def __getitem__(self, primitive):
        if primitive.name == "pallas_call":
            return self._pallas
        if primitive.name in _FROM_CPU and primitive not in self._rules:
            return self._cpu_rules[primitive]
        return self._rules[primitive]

    def __contains__(self, primitive):
        return primitive.name == "pallas_call" or primitive in self._rules or (primitive.name in _FROM_CPU
                                                                               and primitive in self._cpu_rules)

    def __setitem__(self, primitive, rule):
        self._rules[primitive] = rule

    def __delitem__(self, primitive):
        del self._rules[primitive]

    def __iter__(self):
        return iter(self._rules)

    def __len__(self):
        return len(self._rules)


def initialize():
    """Registers the plugin, and lets JAX lower programs for it as it does for TPUs: the devices are those of a slice."""
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir

    # JAX warns that platforms which it does not know are experimental, also in programs that run elsewhere.
    known = getattr(xla_bridge, "_nonexperimental_plugins", set())
    known.add("meshlo")
    # Below every other platform: a program that names none keeps running where it ran.
    xla_bridge.register_plugin("meshlo", priority=-100, library_path=LIBRARY, options=_Options())
    known.discard("meshlo")
    # One table for both names: rules that are registered later, by libraries not yet imported, hold for both.
    rules = mlir._platform_specific_lowerings["tpu"]
    if not isinstance(rules, _Lowerings):
        # Before JAX 0.7 the table holds the rules themselves.
        entry = getattr(mlir, "LoweringRuleEntry", lambda rule, inline: rule)
        rules = _Lowerings(rules, mlir._platform_specific_lowerings["cpu"], entry)
    mlir._platform_specific_lowerings["meshlo"] = rules
    # The platform tpu is ours too if this library, or another build of it, replaces libtpu.
    if os.path.basename(os.environ.get("TPU_LIBRARY_PATH", "")) == os.path.basename(LIBRARY):
        mlir._platform_specific_lowerings["tpu"] = rules
    if "meshlo" not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append("meshlo")
