// SPDX-License-Identifier: Apache-2.0
// Replica groups: the devices that take part in a collective together, in XLA's three text forms.
//
// Stability: stable.
#ifndef MESHLO_HLO_IR_REPLICA_GROUPS_H_
#define MESHLO_HLO_IR_REPLICA_GROUPS_H_

#include "hlo/ir/sharding.h"

HLO_BEGIN_C

typedef enum HloReplicaGroupsForm {
    HLO_GROUPS_LIST,  // V1: {{0,1},{2,3}}, or {} = all devices in one group
    HLO_GROUPS_IOTA,  // V2: [2,2]<=[4] or [2,2]<=[2,2]T(1,0)
    HLO_GROUPS_MESH,  // V3: mesh[a=2,b=4] {a,b:(1)2}
} HloReplicaGroupsForm;

typedef struct HloReplicaGroups {
    HloReplicaGroupsForm form;
    const HloInts *groups;   // LIST: `count` groups
    int64_t count;           // LIST and IOTA: number of groups
    HloIotaDevices iota;     // IOTA: reshape and transpose after `<=`; dims are {count, size}
    int64_t size;            // IOTA: devices per group
    HloMesh mesh;            // MESH
    const HloAxisRef *axes;  // MESH: the axes that vary within a group
    int64_t axis_count;
} HloReplicaGroups;

// Makes {{0,1},{2,3}}; copies the lists.
HLO_EXPORT const HloReplicaGroups *hlo_replica_groups_list(HloArena *arena, const HloInts *groups, int64_t count);
// Makes [groups,size]<=[dims]T(perm); `permutation` is NULL for the identity.
HLO_EXPORT const HloReplicaGroups *hlo_replica_groups_iota(HloArena *arena, int64_t groups, int64_t size,
                                                           const int64_t *dims, const int64_t *permutation,
                                                           int64_t rank);
// Expands the groups in `arena` to *count lists of device numbers. An empty V1 list becomes one group of `device_count`
// devices. INVALID_ARGUMENT if a device is missing, repeated or out of range.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_replica_groups_expand(const HloReplicaGroups *groups, int64_t device_count,
                                                             HloArena *arena, const HloInts **lists, int64_t *count);
// As hlo_replica_groups_expand(), for collective-broadcast, whose groups may leave devices out: each of these gets its
// own list after the `*named` written ones.
HLO_EXPORT HLO_NODISCARD HloStatus hlo_replica_groups_complete(const HloReplicaGroups *groups, int64_t device_count,
                                                               HloArena *arena, const HloInts **lists, int64_t *count,
                                                               int64_t *named);
// The number of devices per group: 0 if the groups are empty or differ in size.
HLO_EXPORT int64_t hlo_replica_groups_size(const HloReplicaGroups *groups);
// Returns a deep copy in another arena.
HLO_EXPORT const HloReplicaGroups *hlo_replica_groups_copy(HloArena *arena, const HloReplicaGroups *groups);
// True if written the same way with the same numbers.
HLO_EXPORT bool hlo_replica_groups_equal(const HloReplicaGroups *a, const HloReplicaGroups *b);
// Hashes groups: equal groups have equal hashes.
HLO_EXPORT uint64_t hlo_replica_groups_hash(const HloReplicaGroups *groups);
// Appends the groups as XLA prints them: {{0,1},{2,3}}, [2,2]<=[4] or mesh[..] {..}.
HLO_EXPORT void hlo_replica_groups_print(HloText *text, const HloReplicaGroups *groups);

HLO_END_C

#endif
