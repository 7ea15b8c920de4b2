// SPDX-License-Identifier: Apache-2.0
// The attributes of an instruction: those that every op may have, called computations, and the fields of its family. An
// attribute's name is looked up among those that every op has, then among the called computations' roles, then among
// the fields of the op's family (hlo/ir/attributes.def), which hlo_parse_field() reads by their kind. Rules that no
// table can express (required fields, roles, combinations) are checked after the last one. The rules are those of
// CreateInstruction() in XLA's hlo_parser.cc: text that XLA refuses is refused, even where it would make sense.
#include <assert.h>

#include "hlo/base/nearest.h"
#include "hlo/text/parser.h"

typedef enum Common {
    COMMON_SHARDING,
    COMMON_METADATA,
    COMMON_BACKEND_CONFIG,
    COMMON_FRONTEND_ATTRIBUTES,
    COMMON_CONTROL_PREDECESSORS,
    COMMON_ORIGIN,
    COMMON_STATISTICS,
    COMMON_EXECUTION_THREAD,  // of a wrapped op; for async-start itself it is a field
    COMMON_ALIASING,
    COMMON_DOMAIN,
    COMMON_BRANCHES,
    COMMON_CALLED,
    COMMON_ROLE,  // the first of the roles below
} Common;

// A name with its length, so that most comparisons end there.
#define NAME(text) \
    { text, sizeof(text) - 1 }
static const struct {
    const char *text;
    size_t length;
} common_names[] = {NAME("sharding"),
                    NAME("metadata"),
                    NAME("backend_config"),
                    NAME("frontend_attributes"),
                    NAME("control-predecessors"),
                    NAME("origin"),
                    NAME("statistics")};

typedef enum Role { TO_APPLY, CALLS, CONDITION, BODY, SELECT, SCATTER, TRUE_BRANCH, FALSE_BRANCH, ROLE_COUNT } Role;

static const char *const role_names[ROLE_COUNT] = {"to_apply", "calls",   "condition",        "body",
                                                   "select",   "scatter", "true_computation", "false_computation"};

#define BIT(role) (1U << (role))

// Roles that an op must fill, as bits. A conditional's roles depend on its selector: a predicate has two named
// branches, an index a list.
static unsigned needed_roles(HloOpcode opcode, bool pred_branch) {
    assert(opcode >= 0 && opcode < HLO_OPCODE_COUNT);
    switch (opcode) {
        case HLO_OP_REDUCE:
        case HLO_OP_REDUCE_WINDOW:
        case HLO_OP_MAP:
        case HLO_OP_SORT:
        case HLO_OP_SCAN:
        case HLO_OP_SCATTER:
        case HLO_OP_CALL:
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_ALL_REDUCE_START:
        case HLO_OP_REDUCE_SCATTER: return BIT(TO_APPLY);
        case HLO_OP_FUSION:
        case HLO_OP_ASYNC_START: return BIT(CALLS);
        case HLO_OP_WHILE: return BIT(CONDITION) | BIT(BODY);
        case HLO_OP_SELECT_AND_SCATTER: return BIT(SELECT) | BIT(SCATTER);
        case HLO_OP_CONDITIONAL: return pred_branch ? BIT(TRUE_BRANCH) | BIT(FALSE_BRANCH) : 0;
        default: return 0;
    }
}

static unsigned allowed_roles(HloOpcode opcode, bool pred_branch) {
    if (opcode == HLO_OP_CUSTOM_CALL) return BIT(TO_APPLY);
    if (opcode == HLO_OP_ASYNC_UPDATE || opcode == HLO_OP_ASYNC_DONE) return BIT(CALLS);
    return needed_roles(opcode, pred_branch);
}

// -1 if the family has no such field.
static int find_field(const HloFamilyInfo *family, const char *name) {
    for (int i = 0; i < family->field_count; i++) {
        if (family->fields[i].text[0] == name[0] && strcmp(family->fields[i].text, name) == 0) return i;
    }
    return -1;
}

static bool check_needed_fields(HloParser *parser, const char *where, HloOpcode opcode,
                                const HloParsedAttributes *parsed) {
    assert(parsed && where);
    const HloFamilyInfo *family = hlo_family_info(hlo_op_info(opcode)->family);
    for (int32_t field = 0; field < family->field_count; field++) {
        if (hlo_field_presence(opcode, field) != HLO_FIELD_NEEDED || (parsed->seen_fields >> field & 1)) continue;
        return hlo_parser_fail(parser, where, "%s needs the attribute %s", hlo_op_text(opcode),
                               family->fields[field].text);
    }
    return true;
}

// True for ops whose `dimensions` have exactly one number.
static bool has_one_dimension(HloOpcode opcode) {
    return opcode == HLO_OP_SORT || opcode == HLO_OP_SCAN || opcode == HLO_OP_CONCATENATE ||
           opcode == HLO_OP_GET_DIMENSION_SIZE || opcode == HLO_OP_SET_DIMENSION_SIZE || opcode == HLO_OP_ALL_GATHER ||
           opcode == HLO_OP_ALL_GATHER_START || opcode == HLO_OP_REDUCE_SCATTER || opcode == HLO_OP_ALL_TO_ALL ||
           opcode == HLO_OP_RAGGED_ALL_TO_ALL;
}

// Sets fields whose absence does not mean zero.
static void set_defaults(HloParser *parser, HloOpcode opcode, HloParsedAttributes *parsed) {
    assert(parsed);
    switch (hlo_op_info(opcode)->family) {
        case HLO_FAMILY_TopK: parsed->family.top_k.largest = true; break;
        case HLO_FAMILY_Reshape: parsed->family.reshape.inferred_dimension = HLO_ABSENT; break;
        case HLO_FAMILY_CopyStart: parsed->family.copy_start.cross_program_prefetch_index = HLO_ABSENT; break;
        case HLO_FAMILY_Scan: parsed->family.scan.is_associative = 2; break;
        case HLO_FAMILY_Convolution:
            parsed->family.convolution.feature_group_count = parsed->family.convolution.batch_group_count = 1;
            break;
        case HLO_FAMILY_CustomCall:
            parsed->family.custom_call.feature_group_count = parsed->family.custom_call.batch_group_count = 1;
            parsed->family.custom_call.api_version = HLO_CustomCallApi_ORIGINAL;
            break;
        case HLO_FAMILY_Collective:
            parsed->family.collective.replica_groups = HLO_ARENA_NEW(parser->arena, HloReplicaGroups, 1);
            break;
        default: break;
    }
}

// Only earlier instructions can be named: control edges go forward in text.
static bool parse_predecessors(HloParser *parser, HloInstructionVector *predecessors) {
    if (!hlo_parser_expect(parser, '{', "'{'")) return false;
    do {
        const char *name;
        size_t length;
        const char *where = parser->lexer.token.start;
        if (!hlo_parse_name(parser, &name, &length)) return false;
        HloInstruction *instruction = hlo_parser_find(parser, name, length);
        if (!instruction) return hlo_parser_fail(parser, where, "instruction '%s' is not defined", name);
        hlo_vector_push(parser->scratch, predecessors, instruction);
    } while (hlo_parser_eat(parser, ','));
    return hlo_parser_expect(parser, '}', "'}'");
}

// The common attribute, role or list that a name refers to here; -1 if none.
static int find_common(HloOpcode opcode, bool async, bool pred_branch, const char *name, size_t length) {
    for (int i = 0; i < (int)HLO_COUNT_OF(common_names); i++) {
        if (common_names[i].length == length && memcmp(common_names[i].text, name, length) == 0) return i;
    }
    if (async && strcmp(name, "async_execution_thread") == 0) return COMMON_EXECUTION_THREAD;
    // A custom call has its own aliasing attribute, which stays with it.
    bool own = opcode == HLO_OP_CUSTOM_CALL;
    if (async && !own && strcmp(name, "output_to_operand_aliasing") == 0) return COMMON_ALIASING;
    if (opcode == HLO_OP_DOMAIN && strcmp(name, "domain") == 0) return COMMON_DOMAIN;
    if (opcode == HLO_OP_CONDITIONAL && !pred_branch && strcmp(name, "branch_computations") == 0)
        return COMMON_BRANCHES;
    if (opcode == HLO_OP_CUSTOM_CALL && strcmp(name, "called_computations") == 0) return COMMON_CALLED;
    unsigned roles = allowed_roles(opcode, pred_branch);
    for (int role = 0; roles && role < ROLE_COUNT; role++) {
        if ((roles & BIT(role)) && strcmp(role_names[role], name) == 0) return COMMON_ROLE + role;
    }
    return -1;
}

static const char *skip_blanks(const char *at) {
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') at++;
    return at;
}

// The position after `"wait_on_operation_queues": [],` at `at`, or NULL. XLA removes the empty list from the
// configurations it reads.
static const char *after_empty_queues(const char *at) {
    static const char key[] = "\"wait_on_operation_queues\"";
    if (strncmp(at, key, strlen(key)) != 0) return NULL;
    at += strlen(key);
    for (const char *wanted = ":[],"; *wanted; wanted++) {
        at = skip_blanks(at);
        if (*at++ != *wanted) return NULL;
    }
    return at;
}

static bool parse_backend_config(HloParser *parser, HloParsedAttributes *parsed) {
    if (!hlo_parse_string_or_json(parser, &parsed->backend_config, &parsed->backend_config_is_json)) return false;
    if (!strstr(parsed->backend_config, "wait_on_operation_queues")) return true;
    char *to = hlo_arena_text(parser->arena, parsed->backend_config), *start = to;
    for (const char *from = parsed->backend_config; *from;) {
        const char *after = after_empty_queues(from);
        if (after)
            from = after;
        else
            *to++ = *from++;
    }
    *to = 0;
    parsed->backend_config = start;
    return true;
}

// The sharding of the instruction itself, which the verifier checks.
static bool parse_own_sharding(HloParser *parser, HloParsedAttributes *parsed) {
    parser->verified_later = true;
    bool ok = hlo_parse_sharding_here(parser, &parsed->sharding);
    parser->verified_later = false;
    return ok;
}

// Parses a value by the enumerator that find_common() returned.
static bool parse_common(HloParser *parser, int common, HloParsedAttributes *parsed) {
    switch (common) {
        case COMMON_SHARDING: return parse_own_sharding(parser, parsed);
        case COMMON_METADATA: return hlo_parse_metadata(parser, &parsed->metadata);
        case COMMON_BACKEND_CONFIG: return parse_backend_config(parser, parsed);
        case COMMON_FRONTEND_ATTRIBUTES: return hlo_parse_frontend_attributes(parser, &parsed->frontend_attributes);
        case COMMON_CONTROL_PREDECESSORS: return parse_predecessors(parser, &parsed->predecessors);
        case COMMON_ORIGIN: return hlo_parse_origin(parser, &parsed->origin);
        case COMMON_STATISTICS: return hlo_parse_statistics(parser, &parsed->statistics);
        case COMMON_EXECUTION_THREAD: return hlo_parse_string(parser, &parsed->execution_thread);
        case COMMON_ALIASING: return hlo_parse_aliasing(parser, false, &parsed->async_aliasing);
        case COMMON_DOMAIN: return hlo_parse_domain(parser, &parsed->family.domain);
        case COMMON_BRANCHES:
        case COMMON_CALLED: return hlo_parse_called_list(parser, &parsed->list);
        default: return hlo_parse_called(parser, &parsed->roles[common - COMMON_ROLE]);
    }
}

// Skips an attribute that XLA printed for a while, as XLA does.
static bool skip_mode(HloParser *parser) {
    static const char *const modes[] = {"cross_replica", "cross_partition", "cross_replica_and_partition",
                                        "flattened_id"};
    for (size_t i = 0; i < HLO_COUNT_OF(modes); i++) {
        if (!hlo_parser_is_word(parser, modes[i])) continue;
        hlo_lex(&parser->lexer);
        return true;
    }
    return HLO_PARSER_FAIL(parser, "unknown mode of a collective");
}

// Fails at the attribute, and suggests the one of this operation that was probably meant.
static bool fail_unknown_attribute(HloParser *parser, const char *where, HloOpcode opcode, const char *name) {
    const HloFamilyInfo *family = hlo_family_info(hlo_op_info(opcode)->family);
    HloStringVector names = {0};
    for (int32_t field = 0; field < family->field_count; field++)
        if (hlo_field_presence(opcode, field) != HLO_FIELD_FORBIDDEN)
            hlo_vector_push(parser->scratch, &names, family->fields[field].text);
    const char *nearest = hlo_nearest_name(name, names.items, names.count);
    return hlo_parser_fail(parser, where, "%s has no attribute '%s'%s%s", hlo_op_text(opcode), name,
                           nearest ? "; did you mean " : "", nearest ? nearest : "");
}

// An attribute may occur once; `async` is for those of an op that is written as X-start.
static bool parse_one(HloParser *parser, HloOpcode opcode, bool async, bool pred_branch, HloParsedAttributes *parsed) {
    const char *name;
    size_t length;
    const char *where = parser->lexer.token.start;
    if (!hlo_parse_attribute_name(parser, &name, &length)) return false;
    int common = find_common(opcode, async, pred_branch, name, length);
    if (common >= 0) {
        if (parsed->seen >> common & 1) return hlo_parser_fail(parser, where, "attribute %s is given twice", name);
        parsed->seen |= UINT32_C(1) << common;
        return parse_common(parser, common, parsed);
    }
    const HloFamilyInfo *family = hlo_family_info(hlo_op_info(opcode)->family);
    // XLA used another name for it for a while.
    if (opcode == HLO_OP_CONVOLUTION && strcmp(name, "conv_kind") == 0) name = "convolution_kind";
    int field = find_field(family, name);
    if (field < 0 || hlo_field_presence(opcode, field) == HLO_FIELD_FORBIDDEN) {
        return fail_unknown_attribute(parser, where, opcode, name);
    }
    if (parsed->seen_fields >> field & 1) return hlo_parser_fail(parser, where, "attribute %s is given twice", name);
    parsed->seen_fields |= UINT32_C(1) << field;
    if (strcmp(name, "mode") == 0) return skip_mode(parser);
    if (opcode == HLO_OP_SLICE) return hlo_parse_slice(parser, &parsed->family.slice);
    return hlo_parse_field(parser, &family->fields[field], &parsed->family);
}

static bool check_roles(HloParser *parser, const char *where, HloOpcode opcode, bool pred_branch, int64_t operand_count,
                        const HloParsedAttributes *parsed) {
    assert(operand_count >= 0 && parsed);
    unsigned roles = needed_roles(opcode, pred_branch);
    for (int role = 0; role < ROLE_COUNT; role++) {
        if ((roles & BIT(role)) && !parsed->roles[role]) {
            return hlo_parser_fail(parser, where, "%s needs the attribute %s", hlo_op_text(opcode), role_names[role]);
        }
    }
    if (opcode == HLO_OP_CUSTOM_CALL && parsed->roles[TO_APPLY] && parsed->list.count) {
        return hlo_parser_fail(parser, where, "to_apply and called_computations exclude each other");
    }
    if (opcode != HLO_OP_CONDITIONAL) return true;
    int64_t branches = pred_branch ? 2 : parsed->list.count;
    if (branches == 0) return hlo_parser_fail(parser, where, "conditional needs the attribute branch_computations");
    return operand_count == branches + 1 ||
           hlo_parser_fail(parser, where, "conditional has %lld branches, but %lld operands for them",
                           (long long)branches, (long long)operand_count - 1);
}

// Broadcasts of scalars need no dimensions.
static bool check_dimensions(HloParser *parser, const char *where, HloOpcode opcode, HloInstruction *const *operands,
                             HloParsedAttributes *parsed) {
    const HloFamilyInfo *family = hlo_family_info(hlo_op_info(opcode)->family);
    int field = find_field(family, "dimensions");
    if (field < 0) return true;
    bool given = parsed->seen_fields >> field & 1;
    if (opcode == HLO_OP_BROADCAST && !given && operands[0]->shape->rank > 0) {
        return hlo_parser_fail(parser, where, "broadcast needs the attribute dimensions");
    }
    const HloInts *dimensions = (const HloInts *)((const char *)&parsed->family + family->fields[field].offset);
    if (given && has_one_dimension(opcode) && dimensions->count != 1) {
        return hlo_parser_fail(parser, where, "%s has exactly one dimension", hlo_op_text(opcode));
    }
    return true;
}

static bool check_layout_constraints(HloParser *parser, const char *where, HloInstruction *const *operands,
                                     int64_t operand_count, const HloShapes *shapes) {
    assert(operand_count >= 0 && shapes);
    if (shapes->count != operand_count) {
        return hlo_parser_fail(parser, where, "there are %lld operands, but %lld operand_layout_constraints",
                               (long long)operand_count, (long long)shapes->count);
    }
    for (int64_t i = 0; i < operand_count; i++) {
        if (!hlo_shape_equal(shapes->items[i], operands[i]->shape, HLO_COMPARE_IGNORE_LAYOUT)) {
            return hlo_parser_fail(parser, where, "layout constraint %lld does not have the shape of its operand",
                                   (long long)i);
        }
    }
    return true;
}

// Rules between attributes of one op, and with its operands.
static bool check_combinations(HloParser *parser, const char *where, HloOpcode opcode, HloInstruction *const *operands,
                               int64_t operand_count, const HloParsedAttributes *parsed) {
    const HloCollectiveAttributes *collective = &parsed->family.collective;
    switch (opcode) {
        case HLO_OP_CONVOLUTION:
            return (parsed->family.convolution.feature_group_count && parsed->family.convolution.batch_group_count) ||
                   hlo_parser_fail(parser, where, "a convolution of 0 groups");
        case HLO_OP_CUSTOM_CALL: {
            int field = find_field(hlo_family_info(HLO_FAMILY_CustomCall), "operand_layout_constraints");
            return !(parsed->seen_fields >> field & 1) ||
                   check_layout_constraints(parser, where, operands, operand_count,
                                            &parsed->family.custom_call.operand_layouts);
        }
        case HLO_OP_ALL_REDUCE:
        case HLO_OP_ALL_REDUCE_START:
        case HLO_OP_REDUCE_SCATTER:
            return !collective->use_global_device_ids || collective->channel_id ||
                   hlo_parser_fail(parser, where, "use_global_device_ids=true needs a channel_id");
        case HLO_OP_COLLECTIVE_PERMUTE:
        case HLO_OP_COLLECTIVE_PERMUTE_START:
            return parsed->family.permute.slice_sizes.count == 0 || operand_count == 4 ||
                   hlo_parser_fail(parser, where, "%s with slice_sizes takes four operands", hlo_op_text(opcode));
        case HLO_OP_DOMAIN:
            return parsed->family.domain.kind || hlo_parser_fail(parser, where, "domain needs the attribute domain");
        default: return true;
    }
}

bool hlo_parse_attributes(HloParser *parser, HloOpcode opcode, bool async, bool allowed,
                          HloInstruction *const *operands, int64_t operand_count, HloParsedAttributes *parsed) {
    assert(operand_count >= 0 && parsed);
    const char *where = parser->lexer.token.start;
    bool pred_branch = false;
    set_defaults(parser, opcode, parsed);
    if (opcode == HLO_OP_CONDITIONAL) {
        if (operand_count == 0 || !hlo_shape_is_scalar(operands[0]->shape) ||
            (operands[0]->shape->type != HLO_PRED && operands[0]->shape->type != HLO_S32)) {
            return hlo_parser_fail(parser, where, "the first operand of conditional must be a scalar of pred or s32");
        }
        pred_branch = operands[0]->shape->type == HLO_PRED;
    }
    while (allowed && hlo_parser_eat(parser, ',')) {
        if (!parse_one(parser, opcode, async, pred_branch, parsed)) return false;
    }
    return check_needed_fields(parser, where, opcode, parsed) &&
           check_roles(parser, where, opcode, pred_branch, operand_count, parsed) &&
           check_dimensions(parser, where, opcode, operands, parsed) &&
           check_combinations(parser, where, opcode, operands, operand_count, parsed);
}

// Lists (branches, called computations) exclude roles, as parse_one() only accepts what the op has.
HloComputation *const *hlo_parser_called(const HloParsedAttributes *parsed, HloComputation **buffer, int64_t *count) {
    assert(parsed && buffer && count);
    *count = parsed->list.count;
    if (*count) return parsed->list.items;
    for (int role = 0; role < ROLE_COUNT; role++) {
        if (parsed->roles[role]) buffer[(*count)++] = parsed->roles[role];
    }
    return buffer;
}
