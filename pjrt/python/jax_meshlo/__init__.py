# SPDX-License-Identifier: Apache-2.0
"""Tells JAX of the platform `meshlo`. JAX finds this module by its entry point and calls initialize() before it looks for devices."""
import os
import pathlib

LIBRARY = str(pathlib.Path(__file__).with_name("libmeshlo_pjrt.so"))


def _options():
    """Read when the client is made, so that a program may still choose."""
    options = {"platform": "meshlo", "numerics": os.environ.get("MESHLO_NUMERICS", "exact")}
    if os.environ.get("MESHLO_TOPOLOGY"):
        options["topology"] = os.environ["MESHLO_TOPOLOGY"]
    return options


def initialize():
    """Registers the plugin, and lets JAX lower programs for it as it does for TPUs: the devices are those of a slice."""
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir

    # Below every other platform: a program that names none keeps running where it ran.
    xla_bridge.register_plugin("meshlo", priority=-100, library_path=LIBRARY, options=_options)
    # One table for both names: rules that are registered later, by libraries not yet imported, hold for both.
    mlir._platform_specific_lowerings["meshlo"] = mlir._platform_specific_lowerings["tpu"]
    if "meshlo" not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append("meshlo")
