# SPDX-License-Identifier: Apache-2.0
"""Prints the path of the plugin, for TPU_LIBRARY_PATH."""
from jax_meshlo import LIBRARY

print(LIBRARY)
