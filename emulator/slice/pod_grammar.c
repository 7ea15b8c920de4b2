// SPDX-License-Identifier: Apache-2.0
// For most elements libxml2 only reports that they "failed to validate attributes", and not always which. This file
// finds the attribute with the same grammar: it compares the attributes of an element by name and then validates each
// value separately, as the only attribute of the element.
#include "emulator/pod_grammar.h"

#include <assert.h>
#include <libxml/parser.h>
#include <libxml/relaxng.h>
#include <stdbool.h>
#include <string.h>

#include "emulator/pod_rng.h"
#include "hlo/base/memory.h"

struct EmuPodGrammar {
    xmlRelaxNGPtr schema;
    xmlDoc *patterns;  // its text as a tree; an attribute's pattern keeps the schema made of it in `_private`
};

static bool is_named(const xmlNode *node, const char *name) {
    return node->type == XML_ELEMENT_NODE && !strcmp((const char *)node->name, name);
}

// The value of an attribute, or NULL. Grammar and descriptions have no entities, so a value is a single text node.
static const char *value_of(const xmlNode *node, const char *name) {
    for (const xmlAttr *attribute = node->properties; attribute; attribute = attribute->next)
        if (!strcmp((const char *)attribute->name, name))
            return attribute->children && attribute->children->content ? (const char *)attribute->children->content
                                                                       : "";
    return NULL;
}

// The grammar's pattern of an element; names are unique.
static xmlNode *find_element(xmlNode *at, const char *name) {
    for (; at; at = at->next) {
        const char *defined = is_named(at, "element") ? value_of(at, "name") : NULL;
        if (defined && !strcmp(defined, name)) return at;
        xmlNode *found = find_element(at->children, name);
        if (found) return found;
    }
    return NULL;
}

// The pattern of an attribute among the children of an element's pattern or of an <optional>.
static xmlNode *find_attribute(xmlNode *pattern, const char *name) {
    for (xmlNode *at = pattern->children; at; at = at->next) {
        xmlNode *found = is_named(at, "attribute") ? at : is_named(at, "optional") ? find_attribute(at, name) : NULL;
        if (found && (found != at || !strcmp(value_of(at, "name"), name))) return found;
    }
    return NULL;
}

// Makes a grammar for descriptions that consist of one element with one attribute, with the definitions of `grammar`.
static xmlDoc *grammar_of_one(xmlDoc *grammar, const char *element, xmlNode *attribute) {
    xmlDoc *made = xmlCopyDoc(grammar, 1);
    xmlNode *root = made ? xmlDocGetRootElement(made) : NULL, *start = root ? root->children : NULL;
    while (start && !is_named(start, "start")) start = start->next;
    if (!start) return made;
    for (xmlNode *child; (child = start->children);) {
        xmlUnlinkNode(child);
        xmlFreeNode(child);
    }
    xmlNode *pattern = xmlNewChild(start, root->ns, BAD_CAST "element", NULL);
    if (!pattern) return made;
    xmlNewProp(pattern, BAD_CAST "name", BAD_CAST element);
    xmlNode *copy = xmlDocCopyNode(attribute, made, 1);
    if (copy && !xmlAddChild(pattern, copy)) xmlFreeNode(copy);
    xmlNewChild(pattern, root->ns, BAD_CAST "empty", NULL);
    return made;
}

// Drops libxml2's messages: the caller only needs to know whether validation succeeds. A lack of memory is noted in
// `user`.
static void keep_quiet(void *user, xmlErrorPtr error) {
    bool *no_memory = user;
    *no_memory |= error->code == XML_ERR_NO_MEMORY;
}

// Ends the parser after it has parsed a schema; NULL when memory is short.
static xmlRelaxNGPtr parse_schema(xmlRelaxNGParserCtxtPtr parser) {
    bool no_memory = false;
    if (parser) xmlRelaxNGSetParserStructuredErrors(parser, (xmlStructuredErrorFunc)keep_quiet, &no_memory);
    xmlRelaxNGPtr schema = parser ? xmlRelaxNGParse(parser) : NULL;
    xmlRelaxNGFreeParserCtxt(parser);
    if (!no_memory) return schema;
    xmlRelaxNGFree(schema);
    return NULL;
}

// Validates as emu_pod_grammar_validate() does.
static int validate(xmlRelaxNGPtr schema, xmlDoc *document, xmlStructuredErrorFunc keep, void *user) {
    xmlRelaxNGValidCtxtPtr validator = xmlRelaxNGNewValidCtxt(schema);
    if (!validator) return -1;
    xmlRelaxNGSetValidStructuredErrors(validator, keep, user);
    const int outcome = xmlRelaxNGValidateDoc(validator, document);
    xmlRelaxNGFreeValidCtxt(validator);
    return outcome;
}

// Returns the schema of one attribute of an element, made when it is first needed; NULL when memory is short.
static xmlRelaxNGPtr schema_of_one(xmlDoc *grammar, const char *element, xmlNode *pattern) {
    if (pattern->_private) return pattern->_private;
    xmlDoc *one = grammar_of_one(grammar, element, pattern);
    pattern->_private = one ? parse_schema(xmlRelaxNGNewDocParserCtxt(one)) : NULL;
    xmlFreeDoc(one);
    return pattern->_private;
}

// Whether an attribute may have this value; also true when memory is short.
// libxml2 does not say no to an empty list, it fails.
static bool may_be(xmlDoc *grammar, const char *element, xmlNode *pattern, const char *value) {
    bool no_memory = false;
    xmlDoc *document = xmlNewDoc(BAD_CAST "1.0");
    xmlNode *root = document ? xmlNewDocNode(document, NULL, BAD_CAST element, NULL) : NULL;
    if (root) {
        xmlDocSetRootElement(document, root);
        xmlNewProp(root, BAD_CAST value_of(pattern, "name"), BAD_CAST value);
    }
    xmlRelaxNGPtr schema = root ? schema_of_one(grammar, element, pattern) : NULL;
    const bool good =
        !schema || validate(schema, document, (xmlStructuredErrorFunc)keep_quiet, &no_memory) == 0 || no_memory;
    xmlFreeDoc(document);
    return good;
}

// Describes errors in the attributes of one element; adds nothing for elements that the grammar does not define.
static void complain_of(xmlDoc *grammar, const xmlNode *element, HloText *text) {
    const char *name = (const char *)element->name;
    xmlNode *pattern = find_element(xmlDocGetRootElement(grammar), name);
    if (!pattern) return;
    for (const xmlAttr *at = element->properties; at; at = at->next) {
        if (find_attribute(pattern, (const char *)at->name)) continue;
        hlo_text_format(text, "%s has no attribute %s", name, (const char *)at->name);
        return;
    }
    for (const xmlNode *at = pattern->children; at; at = at->next) {
        if (!is_named(at, "attribute") || value_of(element, value_of(at, "name"))) continue;
        hlo_text_format(text, "%s lacks the attribute %s", name, value_of(at, "name"));
        return;
    }
    for (const xmlAttr *at = element->properties; at; at = at->next) {
        const char *attribute = (const char *)at->name, *value = value_of(element, attribute);
        if (may_be(grammar, name, find_attribute(pattern, attribute), value)) continue;
        hlo_text_format(text, "attribute %s of %s cannot be '%s'", attribute, name, value);
        return;
    }
}

// The first element of the description, parents before children, that has an error to report.
static const xmlNode *complain(xmlDoc *grammar, const xmlNode *at, HloText *text) {
    for (; at; at = at->next) {
        if (at->type != XML_ELEMENT_NODE) continue;
        complain_of(grammar, at, text);
        if (text->length > 0) return at;
        const xmlNode *found = complain(grammar, at->children, text);
        if (found) return found;
    }
    return NULL;
}

static void free_schemas(xmlNode *at) {
    for (; at; at = at->next) {
        xmlRelaxNGFree(at->_private);
        free_schemas(at->children);
    }
}

EmuPodGrammar *emu_pod_grammar_new(void) {
    EmuPodGrammar *grammar = hlo_allocate_zeroed(1, sizeof(*grammar));
    if (!grammar) return NULL;
    grammar->schema = parse_schema(xmlRelaxNGNewMemParserCtxt((const char *)emu_pod_rng, (int)sizeof(emu_pod_rng)));
    if (grammar->schema) return grammar;
    emu_pod_grammar_free(grammar);
    return NULL;
}

void emu_pod_grammar_free(EmuPodGrammar *grammar) {
    if (!grammar) return;
    xmlRelaxNGFree(grammar->schema);
    if (grammar->patterns) free_schemas(grammar->patterns->children);
    xmlFreeDoc(grammar->patterns);
    hlo_free(grammar);
}

int emu_pod_grammar_validate(const EmuPodGrammar *grammar, xmlDoc *document, xmlStructuredErrorFunc keep, void *user) {
    assert(grammar && document && keep);
    return validate(grammar->schema, document, keep, user);
}

const xmlNode *emu_pod_attribute_complaint(EmuPodGrammar *grammar, xmlDoc *document, HloText *text) {
    assert(grammar && document && text);
    if (!grammar->patterns)
        grammar->patterns = xmlReadMemory((const char *)emu_pod_rng, (int)sizeof(emu_pod_rng), "pod.rng", NULL,
                                          XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    return grammar->patterns ? complain(grammar->patterns, xmlDocGetRootElement(document), text) : NULL;
}
