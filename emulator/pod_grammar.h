// SPDX-License-Identifier: Apache-2.0
// Internal: the grammar of pod descriptions, emulator/pod.rng, and which attribute of a description does not match it.
#ifndef MESHLO_EMULATOR_POD_GRAMMAR_H_
#define MESHLO_EMULATOR_POD_GRAMMAR_H_

#include <libxml/tree.h>
#include <libxml/xmlerror.h>

#include "hlo/base/text.h"

// The parsed grammar. Parsing it takes longer than reading a description, so a program that reads many keeps one. For
// one thread at a time. (Not kept for the process: libxml2's types, to which it points, end when the host program
// cleans libxml2 up.)
typedef struct EmuPodGrammar EmuPodGrammar;

// Parses the built-in grammar; NULL when memory is short. The caller frees it.
EmuPodGrammar *emu_pod_grammar_new(void);
// Frees a grammar; NULL is allowed.
void emu_pod_grammar_free(EmuPodGrammar *grammar);

// Validates a document: 0 when it is valid, above 0 when it is not, below 0 when libxml2 failed. Calls `keep` with
// `user` for each complaint.
int emu_pod_grammar_validate(const EmuPodGrammar *grammar, xmlDoc *document, xmlStructuredErrorFunc keep, void *user);

// Appends the errors in the attributes of the first element that does not match the grammar, and returns that element;
// NULL if there is none, or memory is short.
const xmlNode *emu_pod_attribute_complaint(EmuPodGrammar *grammar, xmlDoc *document, HloText *text);

#endif
