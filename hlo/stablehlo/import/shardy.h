// SPDX-License-Identifier: Apache-2.0
// The only reader of Shardy's shardings. They come as MLIR attributes (text, bytecode) and as the text of frontend
// attributes (xla.sdy.*), which XLA's round trip through HLO writes. Both become the named shardings of HLO here, and
// both are checked here by the rules of Shardy's own verifier (shardy/dialect/sdy/ir/verifiers.cc): an attribute that
// cannot be read, or that names a mesh or an axis that does not exist, is INVALID_ARGUMENT and never a weaker sharding.
#ifndef MESHLO_HLO_STABLEHLO_IMPORT_SHARDY_H_
#define MESHLO_HLO_STABLEHLO_IMPORT_SHARDY_H_

#include "hlo/ir/module.h"

// The frontend attributes, as xla/service/spmd/shardy/constants.h names them.
#define HLO_SDY_MESHES "xla.sdy.meshes"
#define HLO_SDY_SHARDING "xla.sdy.sharding"
#define HLO_SDY_SHARDING_RULE "xla.sdy.sharding_rule"
#define HLO_SDY_IN_SHARDINGS "xla.sdy.in_shardings"
#define HLO_SDY_OUT_SHARDINGS "xla.sdy.out_shardings"
#define HLO_SDY_MANUAL_AXES "xla.sdy.manual_axes"
// For a module whose entry has one tuple as argument or result: a sharding for each of its elements.
#define HLO_SDY_ARGUMENT_SHARDINGS "xla.sdy.tuple_args_shardings"
#define HLO_SDY_RESULT_SHARDINGS "xla.sdy.tuple_results_shardings"

// The meshes of a module by name. The content of a mesh is checked when it is read.
typedef struct HloSdyMeshes {
    const char *const *names;
    const struct MlirAttribute *const *meshes;
    int64_t count;
} HloSdyMeshes;

// One sharding, with its mesh looked up.
typedef struct HloSdySharding {
    // HLO_SHARDING_NAMED. A mesh without axes replicates; one that names a single device is maximal.
    const HloSharding *sharding;
    // One per dimension: the round of propagation in which it takes part. NULL if all of them are 0.
    const int32_t *priorities;
} HloSdySharding;

// `#sdy.sharding<...>`, or the elements of `#sdy.sharding_per_value<[...]>`.
typedef struct HloSdyShardings {
    const HloSdySharding *items;
    int64_t count;
} HloSdyShardings;

// The meshes in a module's frontend attributes; there may be none.
HLO_NODISCARD HloStatus hlo_sdy_meshes(HloArena *arena, const HloModule *module, HloSdyMeshes *meshes);
// The same from the text of such an attribute: `{mesh = #sdy.mesh<["x"=2]>}`.
HLO_NODISCARD HloStatus hlo_sdy_meshes_of_text(HloArena *arena, const char *text, HloSdyMeshes *meshes);
// Mesh number `index`, checked.
HLO_NODISCARD HloStatus hlo_sdy_mesh(HloArena *arena, const HloSdyMeshes *meshes, int64_t index, HloMesh *mesh);
// Reads the text of one sharding or of a list of them.
HLO_NODISCARD HloStatus hlo_sdy_shardings(HloArena *arena, const HloSdyMeshes *meshes, const char *text,
                                          HloSdyShardings *shardings);
// Reads `#sdy<manual_axes{"x", "y"}>` as a sharding of rank 0 that is manual along these axes of `mesh`. Without a mesh
// (NULL) it is the first of `meshes` that has all of them.
HLO_NODISCARD HloStatus hlo_sdy_manual_axes(HloArena *arena, const HloSdyMeshes *meshes, const HloMesh *mesh,
                                            const char *text, const HloSharding **manual);
// INVALID_ARGUMENT unless the text is a sharding rule, `#sdy.op_sharding_rule<...>`. The rule is not used here:
// operations have their own rules.
HLO_NODISCARD HloStatus hlo_sdy_check_rule(HloArena *arena, const char *text);
// INVALID_ARGUMENT unless the sharding fits an array of this rank; a maximal one fits every rank.
HLO_NODISCARD HloStatus hlo_sdy_check_rank(const HloSharding *sharding, int64_t rank);

// A named sharding as a tiling of an array of this rank, whose `manual` axes are manual inside a region (empty: none).
HLO_NODISCARD HloStatus hlo_sdy_tiling(HloArena *arena, const HloSharding *sharding, const HloAxisRefs *manual,
                                       int64_t rank, const HloSharding **result);

// For the importer: a mesh or a sharding attribute of MLIR. Everything is copied to `arena`.
HLO_NODISCARD HloStatus hlo_sdy_mesh_of_attribute(HloArena *arena, const struct MlirAttribute *attribute,
                                                  HloMesh *mesh);
HLO_NODISCARD HloStatus hlo_sdy_sharding_of_attribute(HloArena *arena, const HloSdyMeshes *meshes,
                                                      const struct MlirAttribute *attribute, HloSdySharding *sharding);
// The axes in a list of names or axis references (NULL: none).
HLO_NODISCARD HloStatus hlo_sdy_axes_of_attribute(HloArena *arena, const HloMesh *mesh,
                                                  const struct MlirAttribute *list, HloAxisRefs *axes);
// A mesh that is written out, or the one with that name (a symbol); NULL if there is none.
const struct MlirAttribute *hlo_sdy_find_mesh(const HloSdyMeshes *meshes, const struct MlirAttribute *mesh);

#endif
